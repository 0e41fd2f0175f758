"""What a comparison came to, in a file that chart.py draws: for every workload how many times as long
as heed each program takes."""

import json


def write(path, versions, threads, turns, times_as_long):
    """versions: of programs by name; times_as_long: by workload, then by name of the program."""
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"programs": versions, "threads": threads, "turns": turns,
                   "times_as_long": times_as_long}, file, indent=1)
        file.write("\n")


def read(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)
