// The little that the native tests need of a test framework.
#ifndef FAIRLEAD_TEST_NATIVE_CHECK_H_
#define FAIRLEAD_TEST_NATIVE_CHECK_H_

#include <cstdint>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace fairlead::test {

using Bytes = std::vector<std::uint8_t>;

struct Registration {
  Registration(const char* title, void (*run)());
};

/** Notes a failure of the running test. */
void Fail(const char* file, int line, const std::string& words);

/** Hexadecimal digits, for goldens and messages; words of four bytes apart. */
std::string Hex(std::span<const std::uint8_t> bytes);
/** The bytes that hexadecimal digits stand for; blanks and line ends do not count. */
Bytes FromHex(std::string_view digits);

template <typename T>
std::string Print(const T& value) {
  if constexpr (requires { std::span<const std::uint8_t>(value); }) {
    return Hex(std::span<const std::uint8_t>(value));
  } else {
    std::ostringstream out;
    out << +value;
    return out.str();
  }
}
inline std::string Print(std::string_view value) { return std::string(value); }
inline std::string Print(const std::string& value) { return value; }
inline std::string Print(const char* value) { return value; }

template <typename A, typename B>
void CheckEqual(const char* file, int line, const A& actual, const B& expected) {
  const std::string got = Print(actual);
  const std::string want = Print(expected);
  if (got != want) Fail(file, line, "got\n  " + got + "\nexpected\n  " + want);
}

}  // namespace fairlead::test

#define FAIRLEAD_JOIN_(a, b) a##b
#define FAIRLEAD_JOIN(a, b) FAIRLEAD_JOIN_(a, b)
/** TEST("a sentence about behaviour") { ... } */
#define TEST(title)                                                                \
  static void FAIRLEAD_JOIN(Test, __LINE__)();                                     \
  static const ::fairlead::test::Registration FAIRLEAD_JOIN(registered, __LINE__)( \
      title, &FAIRLEAD_JOIN(Test, __LINE__));                                      \
  static void FAIRLEAD_JOIN(Test, __LINE__)()
#define CHECK(condition) \
  if (!(condition)) ::fairlead::test::Fail(__FILE__, __LINE__, #condition)
#define CHECK_EQUAL(actual, expected) \
  ::fairlead::test::CheckEqual(__FILE__, __LINE__, actual, expected)

#endif  // FAIRLEAD_TEST_NATIVE_CHECK_H_
