// Prints netlink messages in readable form, with KERNEL_TRACE=1 in the environment.
#ifndef FAIRLEAD_WIRE_TRACE_H_
#define FAIRLEAD_WIRE_TRACE_H_

#include <cstdint>
#include <span>
#include <string>

namespace fairlead::wire {

/** Whether KERNEL_TRACE is 1. Each socket asks once. */
bool TraceWanted() noexcept;

/**
 * One line for each message of a datagram. It begins with `direction` ("->" sent, "<-" received):
 *
 *   -> type 0xa0f flags 0x401 seq 3 len 84 1:"t" 2:"s" 3:{1:{1:{1:0a000001}}}
 *
 * `family_header_bytes`: length of the header between nlmsghdr and the attributes. Attributes are
 * shown by number, since their names depend on the family. Long lines are cut.
 */
std::string TraceLines(const char* direction, std::span<const std::uint8_t> datagram,
                       std::size_t family_header_bytes);

/** Writes the lines to standard error. */
void Trace(const char* direction, std::span<const std::uint8_t> datagram,
           std::size_t family_header_bytes) noexcept;

}  // namespace fairlead::wire

#endif  // FAIRLEAD_WIRE_TRACE_H_
