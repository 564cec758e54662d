// Unmaps pages of program files that only the start needed.
#ifndef FAIRLEAD_MEMORY_FILE_PAGES_H_
#define FAIRLEAD_MEMORY_FILE_PAGES_H_

#include <cstddef>
#include <expected>

#include "base/system_error.h"

namespace fairlead::memory {

/**
 * Takes the pages of program and library files out of this process's page tables. They stay in the
 * page cache, from where a fault brings back each that is used again. Only mappings that are not
 * writable and have no page of their own are touched, so that nothing can be lost, and only
 * segments of loaded objects, with the loader's lock: another thread cannot map something else in
 * their place. Returns how many bytes were resident there. It may be called by any thread at any
 * time.
 */
std::expected<std::size_t, SystemError> ReleaseFilePages();

}  // namespace fairlead::memory

#endif  // FAIRLEAD_MEMORY_FILE_PAGES_H_
