// The ports of this network namespace at which programs can be reached.
#ifndef FAIRLEAD_LOCAL_BOUND_PORTS_H_
#define FAIRLEAD_LOCAL_BOUND_PORTS_H_

#include <cstddef>
#include <cstdint>
#include <expected>
#include <vector>

#include "base/system_error.h"

namespace fairlead::local {

/** An entry: family, protocol, port in network order, address, inode in network order. */
inline constexpr std::size_t kBoundPortBytes = 24;
/** Instead of 6: the socket takes IPv4, too. */
inline constexpr std::uint8_t kBothFamilies = 46;
/** Of more sockets the rest is left out. */
inline constexpr std::size_t kBoundPortsMax = 65536;

/**
 * All TCP sockets that listen and all UDP sockets without a peer, as entries one after the other.
 * Family is 4, 6 or `kBothFamilies`, protocol IPPROTO_*; an IPv4 address is followed by zeroes.
 * ENOENT: the kernel has no inet_diag.
 */
std::expected<std::vector<std::uint8_t>, SystemError> BoundPorts();

}  // namespace fairlead::local

#endif  // FAIRLEAD_LOCAL_BOUND_PORTS_H_
