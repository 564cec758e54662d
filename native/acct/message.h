// Messages about named counters of nfnetlink_acct, which rules of iptables count in (-m nfacct).
#ifndef FAIRLEAD_ACCT_MESSAGE_H_
#define FAIRLEAD_ACCT_MESSAGE_H_

#include <cstdint>
#include <expected>
#include <string>

#include "protocol/ops.gen.h"
#include "wire/attr_reader.h"
#include "wire/message_writer.h"

namespace fairlead::acct {

using Encoded = std::expected<void, protocol::DecodeError>;

/** Appends NFNL_MSG_ACCT_NEW { NFACCT_NAME }, to be refused with EBUSY where there is one. */
Encoded EncodeAdd(const protocol::op::AcctAdd& op, std::uint32_t sequence,
                  wire::MessageWriter& out);
/** Appends NFNL_MSG_ACCT_DEL { NFACCT_NAME }. */
Encoded EncodeDelete(const protocol::op::AcctDelete& op, std::uint32_t sequence,
                     wire::MessageWriter& out);

/** NFNL_MSG_ACCT_GET of all. */
wire::MessageWriter EncodeList(std::uint32_t sequence);

/**
 * Appends the record of a counter from an answer:
 *
 *   NFACCT_NAME, NFACCT_PKTS be64, NFACCT_BYTES be64, NFACCT_USE be32: rules, and one for itself
 */
std::expected<void, std::string> TakeCounter(const wire::Message& message,
                                             protocol::RecordWriter& out);

}  // namespace fairlead::acct

#endif  // FAIRLEAD_ACCT_MESSAGE_H_
