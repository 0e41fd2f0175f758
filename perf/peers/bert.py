"""BERT-base through Hugging Face transformers, random weights: with attention of PyTorch ("sdpa"), of
heed, and with heed's products for the linear layers too; and what of the time attention is. With
--training forward and backward as the model is configured, with 0.1 of the weights of attention dropped,
beside PyTorch's "sdpa" and the model's own "eager". The report says what heed did not compute, and why."""

from command import for_each, imported, parser_of
from turns import Table, seconds_per_call

WAYS = {"sdpa": ("sdpa", False), "heed": ("heed", False), "heed, linear": ("heed", True)}
TRAINED = {"heed": ("heed", False), "sdpa": ("sdpa", False), "eager": ("eager", False)}
WORKLOADS = ["B1_L128", "B8_L128", "B32_L128", "B1_L512", "B8_L512"]


def sizes_of(workload):
    """Of B8_L128 8 and 128."""
    batch, length = workload[1:].split("_L")
    return int(batch), int(length)


def share_of_attention(torch, call):
    """Of the CPU time of a call; of PyTorch's own operators alone."""
    call()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        call()
    times = {event.key: event.self_cpu_time_total for event in profile.key_averages()}
    return sum(t for name, t in times.items() if "attention" in name) / sum(times.values())


def main():
    parser = parser_of(__doc__)
    parser.add_argument("--training", action="store_true", help="steps of training")
    parser.add_argument("--layers", type=int, default=12, help="of the model; fewer make turns shorter")
    options = parser.parse_args()
    torch, transformers, attention, linear, calls = imported(
        "torch", "transformers", "heed.transformers", "heed.linear", "heed.torch")
    torch.set_num_threads(options.threads)
    attention.register()
    torch.manual_seed(0)
    ways, names = (TRAINED, list(TRAINED)) if options.training else (WAYS, list(WAYS)[1:] + ["sdpa"])
    models = {}
    for way, (implementation, products) in ways.items():
        # A configuration of its own, for it says who attends.
        config = transformers.BertConfig(num_hidden_layers=options.layers)
        models[way] = transformers.BertModel(config).eval()
        models[way].load_state_dict(next(iter(models.values())).state_dict())
        models[way].set_attn_implementation(implementation)
        linear.prepare(models[way], products)
    table = Table(names, torch.get_num_threads(), options.repetitions, width=12)

    def compare(workload):
        batch, length = sizes_of(workload)
        ids = torch.randint(0, config.vocab_size, (batch, length))
        mask = torch.ones_like(ids)
        grad = torch.randn(batch, length, config.hidden_size)

        def run(way):
            """The result, or the gradient that comes out last."""
            with torch.inference_mode(not options.training):
                result = models[way](ids, attention_mask=mask).last_hidden_state
            if not options.training:
                return result
            models[way].zero_grad()
            result.backward(grad)
            return models[way].get_input_embeddings().weight.grad

        exact = run("sdpa")  # nothing is dropped yet
        apart = max((run(way) - exact).abs().max().item() for way in ways)
        for model in models.values():
            model.train(options.training)
        table.add(workload, [lambda way=way: seconds_per_call(lambda: run(way)) for way in table.names])
        # PyTorch's operators of attention that drops weights have other names.
        share_of = "heed" if options.training else "sdpa"
        share = share_of_attention(torch, lambda: run(share_of))
        for model in models.values():
            model.eval()
        print(f"{'':12} attention is {share:.0%} of {share_of}'s time; results differ by {apart:.1e}")

    for_each(options.workload or WORKLOADS, compare)
    print(f"heed.torch.report(): {calls.report()}")


if __name__ == "__main__":
    main()
