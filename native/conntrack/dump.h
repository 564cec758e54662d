// Reads entries of connection tracking.
#ifndef FAIRLEAD_CONNTRACK_DUMP_H_
#define FAIRLEAD_CONNTRACK_DUMP_H_

#include <cstdint>
#include <expected>
#include <span>

#include "conntrack/entry.h"
#include "protocol/ops.gen.h"
#include "wire/dump_reader.h"

namespace fairlead::conntrack {

using DumpRequest = protocol::request::ConntrackDump;

/** Refuses families without conntrack, protocols without ports and addresses of other families. */
protocol::Checked Check(const DumpRequest& request) noexcept;

/** Whether the request asks for the entry. */
bool Matches(const DumpRequest& request, const Entry& entry) noexcept;

/** `kWanted`: the request asks the kernel to send matching entries only. */
enum class KernelFilter { kWanted, kNone };

/**
 *   IPCTNL_MSG_CT_GET
 *     CTA_TUPLE_ORIG { CTA_TUPLE_IP { IPv4 destination }, CTA_TUPLE_PROTO { number, destination } }
 *     CTA_FILTER { CTA_FILTER_ORIG_FLAGS u32 in host order: the parts of the tuple to compare }
 *     CTA_STATUS be32, CTA_STATUS_MASK be32
 *     CTA_ZONE be16
 *
 * Older kernels ignore filters: tuples before 5.8, status before 5.15, zone before 6.8. So each
 * entry that arrives is checked with `Matches`.
 */
wire::MessageWriter EncodeDump(const DumpRequest& request, KernelFilter filter,
                               std::uint32_t sequence);

/** Appends the packed entry of a message to `out`, if it matches. */
wire::Taken TakeEntry(const DumpRequest& request, const wire::Message& message, ByteBuffer& out);

struct DumpOutcome {
  ByteBuffer reply;
  /** Errno of the failure, as in `reply`; 0 = none. */
  int error = 0;
};

/** Sends the request, which must have passed Check, and reads the answers. */
std::expected<DumpOutcome, SystemError> RunDump(wire::Socket& socket, const DumpRequest& request,
                                                KernelFilter filter);

}  // namespace fairlead::conntrack

#endif  // FAIRLEAD_CONNTRACK_DUMP_H_
