// Finds programs that are attached to cgroups, by this process or by another.
#ifndef FAIRLEAD_BPF_ATTACHED_H_
#define FAIRLEAD_BPF_ATTACHED_H_

#include <cstdint>
#include <expected>
#include <string>
#include <vector>

#include "base/system_error.h"
#include "bpf/system.h"

namespace fairlead::bpf {

struct Attached {
  /** The link's id; 0: not known. Then it is not known either who attached the program. */
  std::uint32_t link = 0;
  std::uint32_t program = 0;
  std::string name;
  std::uint32_t attach_type = 0;
  /** Its link has one of our pins in the folder. */
  bool is_pinned = false;
};

/**
 * Programs of any version of Fairlead for the calling thread's network namespace. Needs
 * CAP_SYS_ADMIN, but no mount. Without that capability: all programs, also of others, that run for
 * processes in the folder `cgroup` of cgroup2 (empty = no such folder), which needs CAP_NET_ADMIN.
 * `directory`: where Fairlead's pins would be.
 */
std::expected<std::vector<Attached>, SystemError> FindAttached(const std::string& directory,
                                                               const std::string& cgroup);

/** Detaches a link if it still has this program. A missing link is success. Linux 5.9. */
Done Detach(std::uint32_t link, std::uint32_t program);

}  // namespace fairlead::bpf

#endif  // FAIRLEAD_BPF_ATTACHED_H_
