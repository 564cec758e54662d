#ifndef FAIRLEAD_TEST_NATIVE_FUZZ_H_
#define FAIRLEAD_TEST_NATIVE_FUZZ_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "check.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace fairlead::test {

/** Inputs to start from; each fuzzer has its own. */
std::vector<Bytes> Corpus();

}  // namespace fairlead::test

#endif  // FAIRLEAD_TEST_NATIVE_FUZZ_H_
