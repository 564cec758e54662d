#ifndef FAIRLEAD_LEGACY_LOCK_H_
#define FAIRLEAD_LEGACY_LOCK_H_

#include <expected>
#include <string>

#include "base/file_descriptor.h"
#include "base/system_error.h"

namespace fairlead::legacy {

/**
 * Takes the lock that programs hold while they read, change and write a table of iptables-legacy.
 * The lock is released when the descriptor is closed. EAGAIN while another program holds it.
 */
std::expected<FileDescriptor, SystemError> TakeLock(const std::string& path);

}  // namespace fairlead::legacy

#endif  // FAIRLEAD_LEGACY_LOCK_H_
