// System calls that answer what a fuzzer's input says, in the place of the kernel (-Wl,--wrap).
#ifndef FAIRLEAD_TEST_NATIVE_FAKE_KERNEL_H_
#define FAIRLEAD_TEST_NATIVE_FAKE_KERNEL_H_

#include <cstdint>
#include <span>

#include "check.h"

namespace fairlead::test {

/**
 * The next results of the kernel. An input is a list of these, each a byte, a length of two bytes
 * (host order) and this number of bytes.
 */
enum class Turn : std::uint8_t {
  /** These bytes come, whatever they are. */
  kBytes,
  /** They come, and answer what was sent last: their sequence numbers are set. */
  kAnswer,
  /** Everything that was sent last was taken. */
  kAcknowledge,
  kInterrupted,
  kOverrun,
  kNothing,
  kFailure,
  /** More comes than the buffer has room for. */
  kTooLong,
  kCount,
};

/** Adds a turn to an input. */
void PutTurn(Bytes& input, Turn turn, const Bytes& bytes = {});

/** While it lives, the system calls of this thread are answered from `input`. */
class FakeKernel {
 public:
  explicit FakeKernel(std::span<const std::uint8_t> input) noexcept;
  ~FakeKernel();
  FakeKernel(const FakeKernel&) = delete;
  FakeKernel& operator=(const FakeKernel&) = delete;
};

}  // namespace fairlead::test

#endif  // FAIRLEAD_TEST_NATIVE_FAKE_KERNEL_H_
