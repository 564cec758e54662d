// A failed system call and its errno.
#ifndef FAIRLEAD_BASE_SYSTEM_ERROR_H_
#define FAIRLEAD_BASE_SYSTEM_ERROR_H_

#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

namespace fairlead {

/** The text of an errno, as strerror(3) has it. For any thread. */
inline std::string ErrorText(int error) {
  std::array<char, 128> buffer{};
  return strerror_r(error, buffer.data(), buffer.size());
}

struct SystemError {
  int error = 0;
  /** The call and its object, e.g. "setns /run/netns/a". */
  std::string call;

  static SystemError Last(std::string call) { return {errno, std::move(call)}; }

  /** `setns /run/netns/a: No such file or directory`. */
  std::string Text() const { return call + ": " + ErrorText(error); }
};

}  // namespace fairlead

#endif  // FAIRLEAD_BASE_SYSTEM_ERROR_H_
