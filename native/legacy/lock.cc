#include "legacy/lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

namespace fairlead::legacy {

std::expected<FileDescriptor, SystemError> TakeLock(const std::string& path) {
  FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CREAT | O_CLOEXEC, S_IRUSR | S_IWUSR));
  if (!file.valid()) return std::unexpected(SystemError::Last("open " + path));
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    return std::unexpected(SystemError::Last("flock " + path));
  }
  return file;
}

}  // namespace fairlead::legacy
