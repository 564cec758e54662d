// The cookie by which programs identify a network namespace.
#ifndef FAIRLEAD_BPF_NETNS_COOKIE_H_
#define FAIRLEAD_BPF_NETNS_COOKIE_H_

#include <cstdint>
#include <expected>

#include "base/system_error.h"

namespace fairlead::bpf {

/** The cookie of the calling thread's network namespace. Linux 5.14. */
std::expected<std::uint64_t, SystemError> NetnsCookie();

}  // namespace fairlead::bpf

#endif  // FAIRLEAD_BPF_NETNS_COOKIE_H_
