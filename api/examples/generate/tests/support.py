from program import ProgramTest


class GenerateTest(ProgramTest):
    """A text is bytes, which print as latin-1."""

    def run_program(self, *arguments, stdin=b"", **environment):
        result = self.run_with({"capture_output": True, "input": stdin}, *arguments, **environment)
        result.stdout, result.stderr = result.stdout.decode("latin-1"), result.stderr.decode()
        return result

    def text_of(self, *arguments, **environment):
        """What is added to the prompt."""
        output = self.output_of("--quiet", *arguments, **environment)
        self.assertEqual(output[-1:], "\n")
        return output[:-1].encode("latin-1")

    def forks_of(self, count, *arguments):
        """The continuations, which may themselves hold anything but this line."""
        output = self.output_of("--quiet", "--fork", count, *arguments)
        texts, rest = [], output.encode("latin-1")
        for i in range(count):
            start = b"--- %d\n" % (i + 1)
            self.assertTrue(rest.startswith(start), rest)
            rest = rest[len(start) :]
            end = rest.index(b"--- %d\n" % (i + 2)) if i + 1 < count else len(rest)
            self.assertEqual(rest[end - 1 : end], b"\n")
            texts.append(rest[: end - 1])
            rest = rest[end:]
        return texts

    def make(self, name="made.heed", *arguments):
        self.assertEqual(self.output_of("--quiet", "--make", name, *arguments), "")
        return name
