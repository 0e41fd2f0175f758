// The workloads that run by default. perf/peers/shape.py reads them too.
#include "perf/workload.hpp"

namespace heed::perf {

const std::vector<std::string> kStandardWorkloads = {
    "B1_H16_L1024_D64",        "B1_H8_L4096_D128",
    "B1_H8_L4096_D128_causal", "B32_H12_L128_D64",
    "B8_H12_L197_D64",         "B1_H8_L1024_D80",
    "B2_H8_Lq4096_Lkv77_D40",  "B1_H32_Hkv8_Lq1_Lkv8192_D128",
    "B1_H1_L10_D20",
};

const std::vector<std::string> kFormWorkloads = {
    "B1_H16_L1024_D64_keys768",   "B1_H16_L1024_D64_causal",
    "B1_H16_L1024_D64_window256", "B1_H16_L1024_D64_causal_left511",
    "B1_H8_L8192_D64_window256",  "B1_H16_L1024_D64_sink",
    "B1_H16_L1024_D64_lse",       "B1_H16_L1024_D64_softcap30",
    "B1_H16_L1024_D64_alibi",     "B1_H16_L1024_D64_mask",
    "B1_H16_L1024_D64_headmask",  "B1_H16_L1024_D64_keymask",
    "B1_H16_L1024_D64_bias",      "B1_H16_L1024_D64_headbias",
    "B1_H16_L1024_D64_bf16",      "B1_H16_L1024_D64_f16",
    "B1_H16_L1024_D64_f64",       "B4_H16_L1024_D64_packed",
    "B1_H16_L1024_D64_hard",      "B1_H16_L1024_D64_score",
    "B1_H16_L1024_D64_sums",      "B1_H16_L1024_D64_weightrows16",
    "B1_H16_L1024_D64_weights",   "B1_H16_L1024_D64_dropout10",
    "B1_H16_L1024_D64_leaky",     "B1_H16_L1024_D64_tanh",
};

const std::vector<std::string> kBackwardWorkloads = {
    "B1_H16_L1024_D64",
    "B1_H8_L4096_D128",
    "B1_H1_L4096_D128",
    "B1_H8_L4096_D128_causal",
    "B32_H12_L128_D64",
    "B8_H12_L197_D64",
    "B1_H8_L1024_D80",
    "B2_H8_Lq4096_Lkv77_D40",
    "B1_H32_Hkv8_Lq1_Lkv8192_D128",
    "B1_H1_L10_D20",
    "B1_H16_L1024_D64_causal",
    "B1_H16_L1024_D64_window256",
    "B1_H16_L1024_D64_mask",
    "B1_H16_L1024_D64_keymask",
    "B1_H16_L1024_D64_bias",
    "B1_H16_L1024_D64_softcap30",
    "B1_H16_L1024_D64_dropout10",
    "B1_H16_L1024_D64_sink",
    "B4_H16_L1024_D64_packed",
    "B1_H16_Hkv4_L1024_D64",
    "B1_H16_Hkv4_L1024_D64_causal_bf16",
    "B1_H16_L1024_D64_bf16",
    "B1_H16_L1024_D64_f16",
    "B1_H16_L1024_D64_f64",
    "B1_H8_L4096_D128_causal_bf16",
};

const std::vector<std::string> kBlockWorkloads = {
    "B1_H12_L128_D64_W768", "B8_H12_L128_D64_W768", "B32_H12_L128_D64_W768",
    "B1_H12_L512_D64_W768", "B8_H12_L512_D64_W768", "B32_H12_L512_D64_W768",
    "B1_H12_L197_D64_W768", "B8_H12_L197_D64_W768", "B1_H32_Hkv8_L512_D128_W4096_nobias",
};

const std::vector<std::string> kDecodeWorkloads = {
    "B1_H1_Lq1_Lkv128_D128",
    "B1_H32_Hkv8_Lq1_Lkv128_D128",
    "B1_H32_Hkv8_Lq1_Lkv1024_D128_layers32",
    "B1_H32_Hkv8_Lq1_Lkv8192_D128_layers4",
    "B1_H32_Hkv8_Lq1_Lkv32768_D128",
    "B1_H32_Hkv8_Lq1_Lkv131072_D128",
    "B1_H32_Hkv8_Lq4_Lkv8192_D128_layers4_causalBR",
    "B1_H32_Hkv8_Lq16_Lkv8192_D128_layers4_causalBR",
    "B1_H32_Hkv8_Lq1_Lkv8192_D128_layers8_bf16",
    "B1_H32_Hkv8_Lq1_Lkv8192_D128_layers8_f16",
    "B1_H32_Hkv8_Lq4_Lkv8192_D128_layers8_causalBR_bf16",
    "B1_H32_Hkv8_Lq1_Lkv131072_D128_bf16",
    "B8_H32_Hkv8_Lq1_Lkv8192_D128_ragged",
    "B8_H32_Hkv8_Lq4_Lkv8192_D128_causalBR_ragged",
    "B32_H32_Hkv8_Lq1_Lkv1024_D128_ragged",
    "B32_H32_Hkv8_Lq1_Lkv8192_D128_ragged_bf16",
    "B1_H32_Lq1_Lkv128_D128_layers64",
    "B1_H32_Lq1_Lkv1024_D128_layers8",
    "B1_H32_Lq1_Lkv8192_D128",
    "B1_H32_Lq16_Lkv8192_D128_causalBR",
    "B1_H32_Lq1_Lkv8192_D128_layers2_bf16",
    "B1_H32_Lq1_Lkv8192_D128_layers2_f16",
    "B1_H32_Lq1_Lkv32768_D128",
    "B8_H32_Lq1_Lkv1024_D128_ragged",
    "B1_H32_Hkv8_Lq1_Lkv8192_D128_layers8_i8",
    "B1_H32_Hkv8_Lq1_Lkv8192_D128_layers8_f8",
    "B1_H32_Hkv8_Lq4_Lkv8192_D128_layers8_causalBR_i8",
    "B1_H32_Hkv8_Lq1_Lkv131072_D128_i8",
    "B32_H32_Hkv8_Lq1_Lkv8192_D128_ragged_i8",
    "B1_H32_Lq1_Lkv8192_D128_layers2_i8",
    "B1_H32_Lq1_Lkv8192_D128_layers2_f8",
    "B1_H32_Hkv8_Lq1_Lkv8192_D64_layers16_i8",
    "B1_H32_Hkv8_Lq1_Lkv8192_D128_layers4_pages16",
    "B1_H32_Hkv8_Lq1_Lkv8192_D128_layers4_pages16_nhd",
    "B1_H32_Hkv8_Lq1_Lkv8192_D128_layers4_pages64",
    "B1_H32_Hkv8_Lq1_Lkv8192_D128_layers4_pages64_nhd",
    "B1_H32_Hkv8_Lq1_Lkv8192_D128_layers8_bf16_pages16_nhd",
    "B1_H32_Hkv8_Lq1_Lkv8192_D128_layers8_i8_pages16_nhd",
    "B1_H32_Hkv8_Lq16_Lkv8192_D128_layers4_causalBR_pages16_nhd",
    "B32_H32_Hkv8_Lq1_Lkv1024_D128_ragged_pages16_nhd",
    "B1_H32_Lq1_Lkv8192_D128_pages16",
    "B1_H32_Lq1_Lkv8192_D128_pages16_nhd",
    "B1_H32_Hkv8_Lq256_Lkv16384_D128_causalBR",
    "B1_H32_Hkv8_Lq256_Lkv16384_D128_causalBR_bf16",
    "B1_H32_Hkv8_Lq256_Lkv16384_D128_causalBR_pages16_nhd",
    "B1_H32_Hkv8_Lq1_Lkv8192_D64_layers8",
    "B1_H32_Hkv8_Lq1_Lkv8192_D64_layers16_bf16",
};

const std::vector<std::string> kStrongWorkloads = {
    "B1_H1_L131072_D128_causal",
    "B1_H8_L16384_D128_causal",
    "B1_H8_L16384_D128",
    "B1_H8_Hkv2_L16384_D128_causal_bf16",
};

const std::vector<std::string> kWeakWorkloads = {
    "B1_H1_L32768_D128_causal",
    "B1_H8_L8192_D128_causal",
};

const std::vector<std::string> kAppendWorkloads = {
    "append1_Hkv8_D128_layers32",
    "append1_Hkv8_D128_layers32_bf16",
    "append1_Hkv8_D128_layers32_i8",
    "append256_Hkv8_D128_layers4",
    "append256_Hkv8_D128_layers4_bf16",
    "append256_Hkv8_D128_layers4_f16",
    "append256_Hkv8_D128_layers4_i8",
    "append256_Hkv8_D128_layers4_f8",
    "append256_Hkv8_D128_layers4_bf16_rotary",
};

}  // namespace heed::perf
