// A growing buffer of bytes. Its memory can be handed to JavaScript without a copy.
#ifndef FAIRLEAD_BASE_BYTE_BUFFER_H_
#define FAIRLEAD_BASE_BYTE_BUFFER_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <utility>

namespace fairlead {

/**
 * Unlike std::vector it does not zero new bytes: a batch has some megabytes, and all of them are
 * written anyway. Out of memory ends the process, as everywhere in the addon.
 */
class ByteBuffer {
 public:
  struct Free {
    void operator()(std::uint8_t* memory) const noexcept { std::free(memory); }
  };
  using Memory = std::unique_ptr<std::uint8_t[], Free>;

  ByteBuffer() noexcept = default;
  ByteBuffer(ByteBuffer&& other) noexcept
      : memory_(std::move(other.memory_)),
        size_(std::exchange(other.size_, 0)),
        capacity_(std::exchange(other.capacity_, 0)) {}
  ByteBuffer& operator=(ByteBuffer&& other) noexcept {
    memory_ = std::move(other.memory_);
    size_ = std::exchange(other.size_, 0);
    capacity_ = std::exchange(other.capacity_, 0);
    return *this;
  }

  std::size_t size() const noexcept { return size_; }
  std::uint8_t* data() noexcept { return memory_.get(); }
  std::span<const std::uint8_t> bytes() const noexcept { return {memory_.get(), size_}; }

  /** Appends `length` bytes of undefined content and returns where they start. */
  std::uint8_t* Extend(std::size_t length) noexcept {
    if (length > capacity_ - size_) Grow(size_ + length);
    std::uint8_t* start = memory_.get() + size_;
    size_ += length;
    return start;
  }

  /** Makes room for `capacity` bytes in all. */
  void Reserve(std::size_t capacity) noexcept {
    if (capacity > capacity_) Reallocate(capacity);
  }

  void Truncate(std::size_t size) noexcept {
    if (size < size_) size_ = size;
  }

  /** Hands the memory to the caller; the buffer is empty afterwards. */
  Memory Release() noexcept {
    size_ = 0;
    capacity_ = 0;
    return std::move(memory_);
  }

 private:
  void Grow(std::size_t needed) noexcept {
    Reallocate(needed > 2 * capacity_ ? needed + 256 : 2 * capacity_);
  }

  void Reallocate(std::size_t capacity) noexcept {
    void* memory = std::realloc(memory_.get(), capacity);
    if (memory == nullptr) std::abort();
    static_cast<void>(memory_.release());
    memory_.reset(static_cast<std::uint8_t*>(memory));
    capacity_ = capacity;
  }

  Memory memory_;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

}  // namespace fairlead

#endif  // FAIRLEAD_BASE_BYTE_BUFFER_H_
