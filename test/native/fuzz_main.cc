// Runs a fuzzer without libFuzzer: mutates its corpus, keeps inputs that take a new way through the
// code. The same seed and number of runs take the same inputs; without a seed each run has its own.
//
//   fuzz_x [RUNS [SEED [SECONDS]]]   mutate; SECONDS ends a long run early
//   fuzz_x --corpus DIRECTORY        write the inputs to start from, for libFuzzer
//   fuzz_x --replay FILE             run one input
#include <sanitizer/asan_interface.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <string>

#include "fuzz.h"

namespace {

using fairlead::test::Bytes;

// Ways seen: one bit for each place in the code, by its address.
std::array<std::uint8_t, 1 << 16> seen{};
bool found_new = false;
Bytes current;
const char* program = "";
std::uint32_t run_seed = 0;

constexpr std::size_t kInputBytesMax = 16 * 1024;
constexpr std::size_t kCorpusMax = 2000;

void WriteCurrent() {
  const std::string path = std::string(program) + ".crash";
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(current.data()),
             static_cast<std::streamsize>(current.size()));
  std::fprintf(stderr, "the input is in %s: run `%s --replay` on it (seed %u)\n", path.c_str(),
               program, run_seed);
}

class Mutator {
 public:
  explicit Mutator(std::uint32_t seed) : random_(seed) {}

  std::size_t Below(std::size_t limit) { return limit == 0 ? 0 : random_() % limit; }

  Bytes Mutate(const std::vector<Bytes>& corpus) {
    Bytes input = corpus[Below(corpus.size())];
    for (std::size_t times = 1 + Below(4); times > 0; --times) Once(input, corpus);
    if (input.size() > kInputBytesMax) input.resize(kInputBytesMax);
    return input;
  }

 private:
  void Once(Bytes& input, const std::vector<Bytes>& corpus) {
    const std::size_t at = Below(input.size());
    switch (Below(7)) {
      case 0:
        if (!input.empty()) input[at] ^= static_cast<std::uint8_t>(1 << Below(8));
        break;
      case 1:
        if (!input.empty()) input[at] = static_cast<std::uint8_t>(random_());
        break;
      case 2:
        SetNumber(input, at);
        break;
      case 3:
        input.resize(at);
        break;
      case 4:
        Erase(input, at);
        break;
      case 5:
        Insert(input, at, corpus[Below(corpus.size())]);
        break;
      default:
        input.insert(input.begin() + static_cast<std::ptrdiff_t>(at), 1 + Below(8), 0);
    }
  }

  /** Lengths and counts are where parsers go wrong. */
  void SetNumber(Bytes& input, std::size_t at) {
    static constexpr std::array<std::uint32_t, 12> kNumbers = {
        0, 1, 3, 4, 5, 0xff, 0xffff, 0x10000, 0x7fffffff, 0x80000000, 0xfffffffc, 0xffffffff};
    const std::uint32_t number = kNumbers[Below(kNumbers.size())];
    const std::size_t aligned = at & ~std::size_t{3};
    if (aligned + 4 <= input.size()) std::memcpy(input.data() + aligned, &number, 4);
  }

  void Erase(Bytes& input, std::size_t at) {
    const std::size_t length = std::min(input.size() - at, 4 * (1 + Below(8)));
    const auto start = input.begin() + static_cast<std::ptrdiff_t>(at);
    input.erase(start, start + static_cast<std::ptrdiff_t>(length));
  }

  void Insert(Bytes& input, std::size_t at, const Bytes& other) {
    const std::size_t from = Below(other.size());
    const std::size_t length = std::min(other.size() - from, 4 * (1 + Below(32)));
    const auto start = other.begin() + static_cast<std::ptrdiff_t>(from);
    input.insert(input.begin() + static_cast<std::ptrdiff_t>(at), start,
                 start + static_cast<std::ptrdiff_t>(length));
  }

  std::mt19937 random_;
};

void RunOne(const Bytes& input) {
  // A copy of exactly this size: a read beyond it is seen.
  current = Bytes(input.begin(), input.end());
  current.shrink_to_fit();
  found_new = false;
  LLVMFuzzerTestOneInput(current.data(), current.size());
}

int Fuzz(std::uint64_t runs, std::uint32_t seed, double seconds) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<Bytes> corpus = fairlead::test::Corpus();
  for (const Bytes& input : corpus) RunOne(input);
  Mutator mutator(seed);
  std::uint64_t run = 0;
  for (; run < runs; ++run) {
    const Bytes input = mutator.Mutate(corpus);
    RunOne(input);
    if (found_new && corpus.size() < kCorpusMax) corpus.push_back(input);
    if (run % 1024 != 0) continue;
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    if (elapsed.count() > seconds) break;
  }
  const auto ways = std::count_if(seen.begin(), seen.end(), [](auto each) { return each != 0; });
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  std::printf("%s: %llu runs in %.0f s, seed %u, %zu inputs kept, %ld places reached\n", program,
              static_cast<unsigned long long>(run), took.count(), seed, corpus.size(),
              static_cast<long>(ways));
  return 0;
}

int WriteCorpus(const std::string& directory) {
  int number = 0;
  for (const Bytes& input : fairlead::test::Corpus()) {
    std::ofstream file(directory + "/" + std::to_string(number++), std::ios::binary);
    file.write(reinterpret_cast<const char*>(input.data()),
               static_cast<std::streamsize>(input.size()));
  }
  return 0;
}

int Replay(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string content{std::istreambuf_iterator<char>(file), {}};
  RunOne(Bytes(content.begin(), content.end()));
  std::printf("%s: no fault\n", path.c_str());
  return 0;
}

}  // namespace

/** Called by the fuzzed code at each of its places (-fsanitize-coverage=trace-pc). */
extern "C" void __sanitizer_cov_trace_pc() {
  // Relative, so that it is the same in every process.
  const auto place = reinterpret_cast<std::uintptr_t>(__builtin_return_address(0)) -
                     reinterpret_cast<std::uintptr_t>(&__sanitizer_cov_trace_pc);
  std::uint8_t& slot = seen[(place ^ place >> 16) % seen.size()];
  if (slot == 0) found_new = true;
  slot = 1;
}

int main(int argc, char** argv) {
  program = argv[0];
  __sanitizer_set_death_callback(WriteCurrent);
  const std::string first = argc > 1 ? argv[1] : "50000";
  if (first == "--corpus" && argc == 3) return WriteCorpus(argv[2]);
  if (first == "--replay" && argc == 3) return Replay(argv[2]);
  run_seed = argc > 2 ? static_cast<std::uint32_t>(std::strtoul(argv[2], nullptr, 10))
                      : std::random_device()();
  const double seconds = argc > 3 ? std::strtod(argv[3], nullptr) : 1e9;
  return Fuzz(std::strtoull(first.c_str(), nullptr, 10), run_seed, seconds);
}
