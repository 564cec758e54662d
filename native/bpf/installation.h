// The maps and links of one family, pinned in one folder of a bpf file system.
#ifndef FAIRLEAD_BPF_INSTALLATION_H_
#define FAIRLEAD_BPF_INSTALLATION_H_

#include <cstdint>
#include <expected>
#include <string>

#include "base/system_error.h"
#include "bpf/system.h"

namespace fairlead::bpf {

/** The folder of the pins, and the family. */
struct Place {
  std::string directory;
  /** AF_INET or AF_INET6. */
  std::uint8_t family;

  std::string PathOf(const char* name) const { return directory + "/" + name; }
};

/** The cgroup that the programs are attached to, and the connections that they translate. */
struct Reach {
  std::string cgroup;
  /** Sockets of all network namespaces; else those of the calling thread's. */
  bool all;
  /** Connections are counted. */
  bool counts;
  /** Connections of processes in excluded cgroups are not translated; the rules handle them. */
  bool excludes;
};

/** `kIncomplete`: some are missing, the others are correct. */
enum class State : std::uint8_t { kAbsent = 0, kWrong = 1, kRight = 2, kIncomplete = 3 };

struct States {
  State maps;
  State links;
};

/** Makes the folder and the maps that are missing. */
Done AddMaps(const Place& place, const Room& room);
/** Attaches the programs, or replaces the programs of existing links. */
Done AddLinks(const Place& place, const Reach& reach);
/**
 * Renews the lease: programs translate for this duration from now. `only_valid`: ETIME when the
 * lease has expired.
 */
Done ExtendLease(const Place& place, std::uint32_t milliseconds, bool only_valid);

/** Detaches the programs, and removes all pins of the family, and the folder when it is empty. */
Done Remove(const Place& place);
std::expected<States, SystemError> StateOf(const Place& place, const Room& room,
                                           const Reach& reach);
/** Loads the programs to test that the kernel accepts them; keeps nothing. */
Done Probe(const Place& place, const Room& room, const Reach& reach);

}  // namespace fairlead::bpf

#endif  // FAIRLEAD_BPF_INSTALLATION_H_
