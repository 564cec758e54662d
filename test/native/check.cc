#include "check.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

namespace fairlead::test {

namespace {

struct Test {
  const char* title;
  void (*run)();
};

std::vector<Test>& Tests() {
  static std::vector<Test> tests;
  return tests;
}

int failures = 0;

}  // namespace

Registration::Registration(const char* title, void (*run)()) { Tests().push_back({title, run}); }

void Fail(const char* file, int line, const std::string& words) {
  ++failures;
  std::fprintf(stderr, "%s:%d: %s\n", file, line, words.c_str());
}

}  // namespace fairlead::test

// Arguments are titles of tests to leave out. One that no test has is an error: it was renamed.
int main(int argc, char** argv) {
  using namespace fairlead::test;
  const std::vector<std::string> left_out(argv + 1, argv + argc);
  for (const std::string& title : left_out) {
    if (std::ranges::find(Tests(), title, &Test::title) != Tests().end()) continue;
    std::fprintf(stderr, "no native test has the title: %s\n", title.c_str());
    return 2;
  }
  std::size_t ran = 0;
  int failed = 0;
  for (const Test& test : Tests()) {
    if (std::ranges::find(left_out, test.title) != left_out.end()) continue;
    ++ran;
    const int before = failures;
    test.run();
    if (failures == before) continue;
    ++failed;
    std::fprintf(stderr, "FAILED: %s\n", test.title);
  }
  std::printf("%zu native tests, %d failed\n", ran, failed);
  return failed == 0 ? 0 : 1;
}
