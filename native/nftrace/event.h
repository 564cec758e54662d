// Reads the events of nf_tables about traced packets.
#ifndef FAIRLEAD_NFTRACE_EVENT_H_
#define FAIRLEAD_NFTRACE_EVENT_H_

#include "protocol/record_writer.h"
#include "wire/attr_reader.h"

namespace fairlead::nftrace {

/** Appends the record of NFT_MSG_TRACE. Ignores messages of other types. */
wire::Taken TakeEvent(const wire::Message& message, protocol::RecordWriter& out);

}  // namespace fairlead::nftrace

#endif  // FAIRLEAD_NFTRACE_EVENT_H_
