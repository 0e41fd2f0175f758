#!/bin/bash -eu
# Targets with plain C++ and SSE2: OSS-Fuzz's CPUs may lack more.
cmake -S . -B build -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DHEED_BUILD_TESTS=ON -DHEED_BUILD_EXAMPLES=OFF \
  -DHEED_SANITIZE="fuzzer-no-link,$SANITIZER" -DHEED_ISAS=sse2 -DHEED_TBB=OFF -DHEED_OPENMP=OFF -DHEED_CBLAS=OFF -DHEED_MPI=OFF
cmake --build build --target fuzz_targets
cp build/tests/fuzz/fuzz_* "$OUT/"
for corpus in tests/fuzz/corpus/*; do
  zip -jq "$OUT/fuzz_$(basename "$corpus")_seed_corpus.zip" "$corpus"/*
done
