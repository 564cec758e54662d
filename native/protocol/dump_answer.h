// How the answer to a request that reads ends: with the record `dumped`.
#ifndef FAIRLEAD_PROTOCOL_DUMP_ANSWER_H_
#define FAIRLEAD_PROTOCOL_DUMP_ANSWER_H_

#include "base/byte_buffer.h"
#include "protocol/record_reader.h"
#include "protocol/record_writer.h"
#include "wire/dump_reader.h"

namespace fairlead::protocol {

/** The records of `out`, and how the kernel ended. */
ByteBuffer EndDump(const wire::DumpEnd& end, RecordWriter out);

/** The answer to a request that makes no sense: EINVAL. */
ByteBuffer RefuseDump(const DecodeError& error);

}  // namespace fairlead::protocol

#endif  // FAIRLEAD_PROTOCOL_DUMP_ANSWER_H_
