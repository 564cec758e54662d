// Pages of program files are unmapped, and no other page is.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/file_descriptor.h"
#include "check.h"
#include "memory/file_pages.h"

namespace fairlead::test {

namespace {

/** A file of one page of zeros, mapped. */
class MappedPage {
 public:
  explicit MappedPage(int rights) : size_(static_cast<std::size_t>(::sysconf(_SC_PAGESIZE))) {
    std::string path = "/tmp/fairlead-native-test-XXXXXX";
    file_ = FileDescriptor(::mkstemp(path.data()));
    CHECK(file_.valid());
    ::unlink(path.c_str());
    CHECK_EQUAL(::ftruncate(file_.get(), static_cast<off_t>(size_)), 0);
    start_ = ::mmap(nullptr, size_, rights, MAP_PRIVATE, file_.get(), 0);
    CHECK(start_ != MAP_FAILED);
  }
  ~MappedPage() { ::munmap(start_, size_); }
  MappedPage(const MappedPage&) = delete;
  MappedPage& operator=(const MappedPage&) = delete;

  volatile std::uint8_t& first() const { return *static_cast<volatile std::uint8_t*>(start_); }
  /** Whether this process has the page in its page table. */
  bool IsPresent() const {
    const FileDescriptor pages(::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
    std::uint64_t entry = 0;
    const auto number = reinterpret_cast<std::uintptr_t>(start_) / size_;
    const auto at = static_cast<off_t>(number * sizeof entry);
    CHECK_EQUAL(::pread(pages.get(), &entry, sizeof entry, at), ssize_t{sizeof entry});
    return (entry >> 63) != 0;
  }
  void Protect(int rights) const { CHECK_EQUAL(::mprotect(start_, size_, rights), 0); }

 private:
  std::size_t size_;
  FileDescriptor file_;
  void* start_ = nullptr;
};

}  // namespace

TEST("pages of loaded objects are released, and those of other files are kept") {
  const MappedPage page(PROT_READ);
  CHECK_EQUAL(page.first(), 0);
  const auto released = memory::ReleaseFilePages();
  CHECK(released.has_value());
  // At least this program, which has just run.
  CHECK(*released >= 64 * 1024);
  // Another thread may have mapped something else there in the meantime.
  CHECK(page.IsPresent());
}

TEST("pages that were written to are kept, also where nobody may write any more") {
  const MappedPage writable(PROT_READ | PROT_WRITE);
  writable.first() = 7;
  const MappedPage relocated(PROT_READ | PROT_WRITE);
  relocated.first() = 8;
  relocated.Protect(PROT_READ);
  CHECK(memory::ReleaseFilePages().has_value());
  CHECK_EQUAL(writable.first(), 7);
  CHECK_EQUAL(relocated.first(), 8);
}

}  // namespace fairlead::test
