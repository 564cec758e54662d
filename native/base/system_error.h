// A failed system call and its errno.
#ifndef FAIRLEAD_BASE_SYSTEM_ERROR_H_
#define FAIRLEAD_BASE_SYSTEM_ERROR_H_

#include <cerrno>
#include <string>

namespace fairlead {

struct SystemError {
  int error = 0;
  /** The call and its object, e.g. "setns /run/netns/a". */
  std::string call;

  static SystemError Last(std::string call) { return {errno, std::move(call)}; }
};

}  // namespace fairlead

#endif  // FAIRLEAD_BASE_SYSTEM_ERROR_H_
