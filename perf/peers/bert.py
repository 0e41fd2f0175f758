"""BERT-base through Hugging Face transformers, random weights: with attention of PyTorch ("sdpa"), of
heed, and with heed's products for the linear layers too; and what of the time attention is."""

from command import for_each, imported, parser_of
from turns import Table, seconds_per_call

WAYS = {"sdpa": ("sdpa", False), "heed": ("heed", False), "heed, linear": ("heed", True)}
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
    options = parser_of(__doc__).parse_args()
    torch, transformers, attention, linear = imported(
        "torch", "transformers", "heed.transformers", "heed.linear")
    torch.set_num_threads(options.threads)
    attention.register()
    torch.manual_seed(0)
    config = transformers.BertConfig()
    models = {}
    for way, (implementation, products) in WAYS.items():
        models[way] = transformers.BertModel(config).eval()
        models[way].load_state_dict(next(iter(models.values())).state_dict())
        models[way].set_attn_implementation(implementation)
        linear.prepare(models[way], products)
    table = Table(list(WAYS)[1:] + ["sdpa"], torch.get_num_threads(), options.repetitions, width=12)

    def compare(workload):
        batch, length = sizes_of(workload)
        ids = torch.randint(0, config.vocab_size, (batch, length))
        mask = torch.ones_like(ids)

        def run(way):
            with torch.inference_mode():
                return models[way](ids, attention_mask=mask).last_hidden_state

        exact = run("sdpa")
        apart = max((run(way) - exact).abs().max().item() for way in WAYS)
        table.add(workload, [lambda way=way: seconds_per_call(lambda: run(way)) for way in table.names])
        share = share_of_attention(torch, lambda: run("sdpa"))
        print(f"{'':12} attention is {share:.0%} of sdpa's time; results differ by {apart:.1e}")

    for_each(options.workload or WORKLOADS, compare)


if __name__ == "__main__":
    main()
