"""attn_implementation="heed" beside "sdpa" or "eager", in models built from configurations."""

import os

import pytest

torch = pytest.importorskip("torch")
os.environ["HF_HUB_OFFLINE"] = "1"
transformers = pytest.importorskip("transformers")

import heed.transformers  # noqa: E402
from heed.transformers import _band, _heed_mask  # noqa: E402

heed.transformers.register()

SMALL = {
    "vocab_size": 99,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "pad_token_id": 0,
    "tie_word_embeddings": False,
}
GROUPED = {**SMALL, "num_key_value_heads": 2, "head_dim": 8}
WINDOWED = {**GROUPED, "sliding_window": 4}

LAYERS = ["sliding_attention", "full_attention", "sliding_attention"]
LOCAL = {"local_attention": 4, "global_attn_every_n_layers": 2}
EXPERTS = {"num_local_experts": 2, "num_experts_per_tok": 1}
# Models and configurations, and which of transformers' own implementations they are held against.
MODELS = {
    "bert": ("BertForMaskedLM", "BertConfig", SMALL, "sdpa"),
    "modernbert": ("ModernBertForMaskedLM", "ModernBertConfig", {**SMALL, **LOCAL}, "sdpa"),
    "llama": ("LlamaForCausalLM", "LlamaConfig", GROUPED, "sdpa"),
    "mistral": ("MistralForCausalLM", "MistralConfig", WINDOWED, "sdpa"),
    "gemma2": (
        *("Gemma2ForCausalLM", "Gemma2Config"),
        *({**WINDOWED, "attn_logit_softcapping": 0.5}, "eager"),
    ),
    "gemma3": (
        *("Gemma3ForCausalLM", "Gemma3TextConfig"),
        *({**WINDOWED, "layer_types": LAYERS}, "sdpa"),
    ),
    "gpt_oss": ("GptOssForCausalLM", "GptOssConfig", {**WINDOWED, **EXPERTS}, "eager"),
}
ENCODERS = ("bert", "modernbert")
DECODERS = [name for name in MODELS if name not in ENCODERS]


def build(name):
    torch.manual_seed(3)
    kind, config, options, reference = MODELS[name]
    model = getattr(transformers, kind)(getattr(transformers, config)(**options)).eval()
    for parameter in model.parameters():  # scores that matter, also sinks
        with torch.no_grad():
            parameter.normal_(std=0.15)
    model.set_attn_implementation(reference)
    return model, reference


def prompts(padded):
    """Token ids and mask; "left" and "right" pad the second of two sequences."""
    ids = torch.arange(2 * 11).reshape(2, 11) * 7 % 98 + 1
    mask = torch.ones_like(ids)
    if padded == "left":
        mask[1, :4] = 0
    if padded == "right":
        mask[1, 7:] = 0
    return {"input_ids": ids, "attention_mask": mask}


def logits(model, implementation, given):
    model.set_attn_implementation(implementation)
    with torch.inference_mode():
        return model(**given).logits[given["attention_mask"].bool()]  # others are nobody's


def record(monkeypatch):
    """The calls of the custom op, by name of argument."""
    calls = []
    attend = heed.transformers.attend
    names = [argument.name for argument in heed.torch.attention._schema.arguments]

    def recorded(*args):
        calls.append(dict(zip(names, args, strict=False)))
        return attend(*args)

    monkeypatch.setattr(heed.transformers, "attend", recorded)
    return calls


def said(call):
    """What a call says of its mask; tensors by whether there are any."""
    tensors = [n for n in ("attn_mask", "bias", "key_lengths") if call[n] is not None]
    return (*tensors, call["causal"], call["offset"], call["left"])


PLAIN, CAUSAL = (False, 0, None), (True, 0, None)


@pytest.mark.parametrize(
    ("name", "padded", "expected"),
    [
        ("bert", None, {PLAIN}),
        ("bert", "right", {("key_lengths", *PLAIN)}),
        ("bert", "left", {("attn_mask", *PLAIN)}),
        ("modernbert", None, {PLAIN, (True, 2, 4)}),
        ("llama", None, {CAUSAL}),
        ("llama", "right", {("key_lengths", *CAUSAL)}),
        ("llama", "left", {("attn_mask", *CAUSAL)}),
        ("gemma2", None, {CAUSAL, (True, 0, 3)}),
        ("gemma3", "left", {("attn_mask", *CAUSAL), ("attn_mask", True, 0, 3)}),
        ("gpt_oss", "right", {("key_lengths", *CAUSAL), ("key_lengths", True, 0, 3)}),
    ],
)
def test_masks_are_told_in_heeds_terms(name, padded, expected, monkeypatch):
    """Masks of sequences alone stay tensors, [batch, 1, 1, keys]."""
    model, _ = build(name)
    calls = record(monkeypatch)
    logits(model, "heed", prompts(padded))
    assert {said(call) for call in calls} == expected
    for call in calls:
        assert call["attn_mask"] is None or call["attn_mask"].shape == (2, 1, 1, 11)


CACHES = {"dynamic": {}, "static": {"cache_implementation": "static"}}


@pytest.mark.parametrize("cache", CACHES)
@pytest.mark.parametrize("padded", [None, "left"])
@pytest.mark.parametrize("name", DECODERS)
def test_generates_the_same_tokens(name, padded, cache):
    model, reference = build(name)
    tokens = []
    for implementation in (reference, "heed"):
        model.set_attn_implementation(implementation)
        options = {"max_new_tokens": 12, "min_new_tokens": 12, "do_sample": False}
        tokens.append(model.generate(**prompts(padded), **options, **CACHES[cache]))
    assert tokens[0].shape == (2, 23)
    assert torch.equal(*tokens)
    assert len(set(tokens[0][:, 11:].flatten().tolist())) > 2  # not one token for ever


def t5():
    torch.manual_seed(4)
    config = transformers.T5Config(
        vocab_size=99, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4
    )
    return transformers.T5ForConditionalGeneration(config).eval()


@pytest.mark.parametrize("padded", [None, "left", "right"])
def test_position_biases_and_cross_attention(padded, monkeypatch):
    """Their gradients too, those of learned biases among them."""
    model, found = t5(), []
    given = {**prompts(padded), "decoder_input_ids": torch.tensor([[0, 5, 8], [0, 7, 3]])}
    given["labels"] = torch.tensor([[5, 8, 4], [7, 3, 6]])
    calls = record(monkeypatch)
    for implementation in ("eager", "heed"):
        found.append(trained(model, implementation, given))
    assert len(calls) == 6  # 2 layers of encoder, 2 of decoder with 2 each
    assert sum(call["bias"] is not None for call in calls) >= 4
    assert sum("relative_attention_bias" in name for name in found[0]) == 2
    assert_all_agree(*found)


def test_masks_of_the_callers_are_added():
    """A floating mask of four axes, which transformers passes on as it is."""
    model, reference = build("llama")
    given = prompts(None)
    mask = torch.full((2, 1, 11, 11), torch.finfo(torch.float32).min).triu(1)
    mask[1, :, :, 3] = -1.5
    out = []
    for implementation in (reference, "heed"):
        model.set_attn_implementation(implementation)
        with torch.inference_mode():
            out.append(model(given["input_ids"], attention_mask=mask).logits)
    torch.testing.assert_close(*out, rtol=1e-4, atol=1e-4)


ONES = torch.ones(6, 9, dtype=torch.bool)
# Masks, and which causal, offset and left they are.
BANDS = {
    "everything": (ONES, (False, 0, None)),
    "causal": (ONES.tril(), (True, 0, None)),
    "causal bottom right": (ONES.tril(3), (True, 3, None)),
    "causal window": (ONES.tril(3).triu(1), (True, 3, 2)),
    "window of both sides": (ONES.tril(2).triu(-2), (True, 2, 4)),
    "left bound alone": (ONES.triu(-2), (False, -2, 0)),
    "keys from the second on": (ONES.triu(1), (False, 1, 0)),
    "one row": (ONES[:1], (False, 0, None)),
    "one row and its window": (torch.arange(9)[None] >= 4, (False, 4, 0)),
    "a hole": (ONES.tril() & (torch.arange(9) != 2), None),
    "chunks": (ONES & (torch.arange(6)[:, None] // 3 == torch.arange(9) // 3), None),
    "a row of nothing": (ONES & (torch.arange(6)[:, None] > 0), None),
}


@pytest.mark.parametrize("name", BANDS)
def test_bands(name):
    allowed, expected = BANDS[name]
    found = _band(allowed)
    assert (found and (found.causal, found.offset, found.left)) == expected
    if found:
        distance = torch.arange(9) - torch.arange(6)[: len(allowed), None] - found.offset
        within = (distance <= 0) | (not found.causal)
        within &= distance >= (-99 if found.left is None else -found.left)
        assert torch.equal(within, allowed)


def test_masks_that_differ_by_sequence_stay_tensors():
    """As of packed sequences, whose mask functions look at the batch."""
    ids = torch.tensor([[0, 0, 1, 1], [0, 1, 1, 1]])

    def same(batch, head, row, key):
        return (ids[batch, row] == ids[batch, key]) & (key <= row)

    given = {"batch_size": 2, "q_length": 4, "kv_length": 4, "allow_is_causal_skip": False}
    mask = _heed_mask(**given, mask_function=same)
    assert torch.equal(
        mask[:, 0], (ids[:, :, None] == ids[:, None]) & torch.ones(4, 4).tril().bool()
    )
    assert not hasattr(mask, "heed")
    assert hasattr(_heed_mask(**given), "heed")
    assert not hasattr(_heed_mask(**given)[..., :3], "heed")


def test_masks_that_are_changed_say_what_they_became(monkeypatch):
    calls = record(monkeypatch)
    with torch.inference_mode():
        mask = _heed_mask(1, 4, 4, allow_is_causal_skip=False)
        x, module = torch.randn(1, 1, 4, 8), torch.nn.Module()
        attend = transformers.AttentionInterface()["heed"]
        attend(module, x, x, x, mask)
        mask[..., 0, 3] = True
        attend(module, x, x, x, mask)
    assert said(calls[0]) == CAUSAL
    assert said(calls[1]) == ("attn_mask", *PLAIN)


def labels_of(given):
    """Tokens that are not padded, and that no padded row predicts."""
    mask = given["attention_mask"].clone()
    mask[:, 1:] *= mask[:, :-1].clone()
    return given["input_ids"].masked_fill(mask == 0, -100)


def trained(model, implementation, given):
    """Logits and the gradients of all parameters, by name."""
    model.set_attn_implementation(implementation)
    model.zero_grad()
    out = model(**given)
    out.loss.backward()
    gradients = {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
    of_decoder = "decoder_input_ids" in given
    seen = slice(None) if of_decoder else given["attention_mask"].bool()  # others are nobody's
    return {**gradients, "logits": out.logits[seen].detach()}


def assert_all_agree(theirs, ours):
    """Within more than layers make of roundings, and less than a wrong mask makes."""
    assert ours.keys() == theirs.keys()
    for name, expected in theirs.items():
        error = (ours[name] - expected).abs().max()
        assert error <= 1e-3 * expected.abs().max() + 1e-6, name


@pytest.mark.parametrize("padded", [None, "left", "right"])
@pytest.mark.parametrize("name", MODELS)
def test_logits_and_gradients(name, padded, monkeypatch):
    """Of every parameter, sinks and embeddings among them."""
    model, reference = build(name)
    calls = record(monkeypatch)
    given = prompts(padded)
    given["labels"] = labels_of(given)
    theirs, ours = (trained(model, one, given) for one in (reference, "heed"))
    assert len(calls) == model.config.num_hidden_layers
    assert heed.transformers.ignored(model) == []
    assert_all_agree(theirs, ours)


@pytest.mark.parametrize("reentrant", [True, False])
def test_gradient_checkpointing(reentrant, monkeypatch):
    """Attention is computed again for its gradients, which stay what they are."""
    model, _ = build("llama")
    given = prompts("left")
    given["labels"] = labels_of(given)
    plain = trained(model.train(), "heed", given)
    model.gradient_checkpointing_enable({"use_reentrant": reentrant})
    calls = record(monkeypatch)
    assert_all_agree(plain, trained(model, "heed", given))
    assert len(calls) == 2 * model.config.num_hidden_layers


@pytest.mark.parametrize("name", ["bert", "gemma2"])
def test_models_train_with_dropout(name, monkeypatch):
    """Of the same random numbers the same; of others something else; without it, none."""
    model, _ = build(name)
    for module in model.modules():
        if hasattr(module, "attention_dropout"):
            module.attention_dropout = 0.1
        elif "SelfAttention" in type(module).__name__:
            module.dropout.p = 0.1
    calls = record(monkeypatch)
    model.set_attn_implementation("heed")

    def gradient(seed):
        torch.manual_seed(seed)
        model.zero_grad()
        model.train()(**prompts("right")).logits.square().mean().backward()
        return next(p.grad.clone() for p in model.parameters() if p.grad is not None)

    first, again, other = gradient(1), gradient(1), gradient(2)
    assert len(calls) == 3 * model.config.num_hidden_layers
    assert set(heed.torch.report()) == {"heed"}
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize("name", ["bert", "llama", "gemma2", "gpt_oss"])
def test_weights_on_request(name):
    model, _ = build(name)
    given = prompts("right")
    found = []
    for implementation in ("eager", "heed"):
        model.set_attn_implementation(implementation)
        with torch.inference_mode():
            found.append(model(**given, output_attentions=True).attentions)
    seen = given["attention_mask"][:, None, :, None].bool()
    for theirs, ours in zip(*found, strict=True):
        assert ours.shape == (2, 4, 11, 11)
        torch.testing.assert_close(ours * seen, theirs * seen, rtol=1e-4, atol=1e-5)


OLD = {"vocab_size": 99, "hidden_size": 32}
IGNORED = {
    "Bloom": dict(**OLD, n_layer=2, n_head=4),
    "Mpt": dict(vocab_size=99, d_model=32, n_layers=2, n_heads=4),
    "XGLM": dict(vocab_size=99, d_model=32, num_layers=2, attention_heads=4, ffn_dim=32),
    "MPNet": dict(**OLD, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48),
    "Falcon": dict(**OLD, num_hidden_layers=2, num_attention_heads=4, alibi=True),
    "GPTNeo": dict(**OLD, num_layers=2, num_heads=4, attention_types=[[["global", "local"], 1]]),
}


@pytest.mark.parametrize("name", IGNORED)
def test_models_that_ignore_their_implementation_are_told_of(name):
    """By ``ignored`` all of them, and in the report those that can be built with "heed"."""
    config, model = (getattr(transformers, name + kind) for kind in ("Config", "Model"))
    assert heed.transformers.ignored(model(config(**IGNORED[name]))) == [name + "Model"]
    heed.torch.report(clear=True)
    given = config(**IGNORED[name], attn_implementation="heed")
    if name in ("Falcon", "GPTNeo"):
        with pytest.raises(KeyError, match="heed"):
            model(given)
        return
    wrong = f'{name}Model ignores attn_implementation="heed" and computes attention itself'
    with torch.inference_mode(), pytest.warns(UserWarning, match=wrong):
        model(given).eval()(**prompts("left"))
    assert heed.torch.report() == {wrong: 1}


def test_paged_caches_are_refused():
    attend = transformers.AttentionInterface()["heed"]
    x = torch.ones(1, 1, 2, 4)
    with pytest.raises(heed.UnsupportedError, match="does not read paged caches of continuous"):
        attend(torch.nn.Module(), x, x, x, None, cache=object())


@pytest.mark.parametrize("name", ["bert", "llama", "gemma2", "gpt_oss"])
def test_compiled(name):
    torch._dynamo.reset()
    model, _ = build(name)
    given = prompts("left")
    expected = logits(model, "heed", given)
    compiled = torch.compile(model, backend="aot_eager", fullgraph=name != "gpt_oss")
    out = logits(compiled, "heed", given)
    torch.testing.assert_close(out, expected, rtol=1e-4, atol=1e-4)
