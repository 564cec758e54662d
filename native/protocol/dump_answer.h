// Answers to requests that read. Each ends with the record `dumped`.
#ifndef FAIRLEAD_PROTOCOL_DUMP_ANSWER_H_
#define FAIRLEAD_PROTOCOL_DUMP_ANSWER_H_

#include <expected>
#include <functional>

#include "base/byte_buffer.h"
#include "base/system_error.h"
#include "protocol/record_reader.h"
#include "protocol/record_writer.h"
#include "wire/dump_reader.h"

namespace fairlead::protocol {

/** The records of `out`, and a record `dumped` that says how the dump ended. */
ByteBuffer EndDump(const wire::DumpEnd& end, RecordWriter out);

/** Appends the records of the object in a message. */
using TakeRecords = std::function<wire::Taken(const wire::Message& message, RecordWriter& out)>;

/** Asks the kernel. The answer holds the records that `take` appends, and `dumped`. */
std::expected<ByteBuffer, SystemError> AnswerDump(wire::Socket& socket,
                                                  const wire::MessageWriter& request,
                                                  const TakeRecords& take);

/** The answer to a request that is invalid: `dumped` with EINVAL. */
ByteBuffer RefuseDump(const BadRecord& error);

}  // namespace fairlead::protocol

#endif  // FAIRLEAD_PROTOCOL_DUMP_ANSWER_H_
