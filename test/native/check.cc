#include "check.h"

#include <cstdio>

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

int main() {
  using namespace fairlead::test;
  int failed = 0;
  for (const Test& test : Tests()) {
    const int before = failures;
    test.run();
    if (failures == before) continue;
    ++failed;
    std::fprintf(stderr, "FAILED: %s\n", test.title);
  }
  std::printf("%zu native tests, %d failed\n", Tests().size(), failed);
  return failed == 0 ? 0 : 1;
}
