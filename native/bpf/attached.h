// Which programs are attached to the hierarchy of cgroups, whoever attached them.
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
  /** Its id; 0: it is not known, and then neither is whose program it is. */
  std::uint32_t link = 0;
  std::uint32_t program = 0;
  std::string name;
  std::uint32_t attach_type = 0;
  /** Its link has one of our pins in the folder. */
  bool is_pinned = false;
};

/**
 * Programs of any version of ours, for the calling thread's network namespace. It needs no mount,
 * but CAP_SYS_ADMIN. Without that: what processes in the folder `cgroup` of cgroup2 meet, whosever
 * it is, which needs CAP_NET_ADMIN; empty: there is no such folder. `directory`: where our pins
 * would be.
 */
std::expected<std::vector<Attached>, SystemError> FindAttached(const std::string& directory,
                                                               const std::string& cgroup);

/** Detaches a link, as long as it has this program. One that has gone is detached. Linux 5.9. */
Done Detach(std::uint32_t link, std::uint32_t program);

}  // namespace fairlead::bpf

#endif  // FAIRLEAD_BPF_ATTACHED_H_
