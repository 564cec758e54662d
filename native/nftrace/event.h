// What nf_tables tells of a traced packet.
#ifndef FAIRLEAD_NFTRACE_EVENT_H_
#define FAIRLEAD_NFTRACE_EVENT_H_

#include "protocol/record_writer.h"
#include "wire/attr_reader.h"

namespace fairlead::nftrace {

/** Appends a record for NFT_MSG_TRACE; messages of other types give nothing. */
wire::Taken TakeEvent(const wire::Message& message, protocol::RecordWriter& out);

}  // namespace fairlead::nftrace

#endif  // FAIRLEAD_NFTRACE_EVENT_H_
