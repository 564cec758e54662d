#ifndef FAIRLEAD_BASE_FILE_DESCRIPTOR_H_
#define FAIRLEAD_BASE_FILE_DESCRIPTOR_H_

#include <unistd.h>

#include <utility>

namespace fairlead {

/** Owns a file descriptor; -1 = none. */
class FileDescriptor {
 public:
  explicit FileDescriptor(int fd = -1) noexcept : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileDescriptor() {
    if (fd_ >= 0) ::close(fd_);
  }

  int get() const noexcept { return fd_; }
  bool valid() const noexcept { return fd_ >= 0; }
  /** The caller closes it. */
  int Release() noexcept { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

}  // namespace fairlead

#endif  // FAIRLEAD_BASE_FILE_DESCRIPTOR_H_
