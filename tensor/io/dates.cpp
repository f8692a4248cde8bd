// tensor/io/dates.cpp: reads and writes dates, by the proleptic Gregorian calendar.
#include "tensor/io/dates.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "tensor/core/error.h"

namespace moonlet::io {
namespace {

constexpr int64_t kDaySeconds = 86400;

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// Days since 1970 of a date, and back: years of 400-year cycles that begin in March.
int64_t days_of(int64_t year, int64_t month, int64_t day) {
  year -= month <= 2 ? 1 : 0;
  const int64_t era = (year >= 0 ? year : year - 399) / 400;
  const int64_t of_era = year - era * 400;
  const int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
  return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

bool is_leap(int64_t year) { return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0; }

int64_t month_days(int64_t year, int64_t month) {
  constexpr std::array<int64_t, 12> kDays = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  return kDays[static_cast<size_t>(month - 1)] + (month == 2 && is_leap(year) ? 1 : 0);
}

// The parts of a date as they are found.
struct Parts {
  int64_t year = 1970, month = 1, day = 1, hour = 0, minute = 0, second = 0, nanoseconds = 0;
  int64_t zone = 0;  // seconds east of UTC
  int half = -1;     // 0: am, 1: pm
  Moment::First first = Moment::First::Other;
};

std::optional<Moment> moment_of(Parts p) {
  if (p.half >= 0) {
    if (p.hour < 1 || p.hour > 12) return {};
    p.hour = p.hour % 12 + 12 * p.half;
  }
  if (p.month < 1 || p.month > 12 || p.day < 1 || p.day > month_days(p.year, p.month)) return {};
  if (p.hour > 23 || p.minute > 59 || p.second > 59) return {};
  return Moment{days_of(p.year, p.month, p.day) * kDaySeconds + p.hour * 3600 + p.minute * 60 +
                    p.second - p.zone,
                p.nanoseconds, p.first};
}

// A text that is read from its front.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : text_(text) {}
  bool done() const { return text_.empty(); }
  char peek() const { return text_.empty() ? '\0' : text_[0]; }
  size_t digits_ahead() const {
    size_t n = 0;
    while (n < text_.size() && is_digit(text_[n])) ++n;
    return n;
  }
  bool take(char c) {
    if (peek() != c || text_.empty()) return false;
    text_.remove_prefix(1);
    return true;
  }
  void skip(std::string_view chars) {
    while (!text_.empty() && chars.find(text_[0]) != chars.npos) text_.remove_prefix(1);
  }
  // A number of `least` to `most` digits, or -1.
  int64_t number(size_t least, size_t most) {
    const size_t count = std::min(digits_ahead(), most);
    if (count < least) return -1;
    int64_t value = 0;
    for (size_t i = 0; i < count; ++i) value = value * 10 + (text_[i] - '0');
    text_.remove_prefix(count);
    return value;
  }
  // The nanoseconds that the digits of a fraction are.
  int64_t fraction() {
    int64_t value = 0, unit = 100000000;
    for (; is_digit(peek()); text_.remove_prefix(1), unit /= 10) value += (text_[0] - '0') * unit;
    return value;
  }
  // The letters ahead, in lower case, eight of them at most.
  std::string word() {
    std::string out;
    while (is_letter(peek()) && out.size() < 16) {
      out += static_cast<char>(text_[0] | 32);
      text_.remove_prefix(1);
    }
    return out;
  }

 private:
  std::string_view text_;
};

// The position of a name that begins with at least three letters of one of the list, from 1, or 0.
template <size_t N>
int64_t position_of(const std::string& word, const std::array<std::string_view, N>& names) {
  if (word.size() < 3) return 0;
  for (size_t i = 0; i < N; ++i)
    if (names[i].starts_with(word) || (word == "sept" && names[i] == "september"))
      return static_cast<int64_t>(i) + 1;
  return 0;
}

constexpr std::array<std::string_view, 12> kMonths = {
    "january", "february", "march",     "april",   "may",      "june",
    "july",    "august",   "september", "october", "november", "december"};
constexpr std::array<std::string_view, 7> kDays = {"monday", "tuesday",  "wednesday", "thursday",
                                                   "friday", "saturday", "sunday"};

int64_t full_year(int64_t year, size_t digits) {
  return digits > 2 ? year : year + (year < 69 ? 2000 : 1900);
}

bool take_zone(Cursor& c, Parts& p) {
  if (c.take('Z') || c.take('z')) return true;
  const bool west = c.peek() == '-';
  if (!c.take('+') && !c.take('-')) return false;
  const int64_t hours = c.number(2, 2);
  c.take(':');
  const int64_t minutes = c.digits_ahead() > 0 ? c.number(2, 2) : 0;
  if (hours < 0 || hours > 23 || minutes < 0 || minutes > 59) return false;
  p.zone = (west ? -1 : 1) * (hours * 3600 + minutes * 60);
  return true;
}

// "12", "12:30", "12:30:15.25", with "pm" and a zone, to the end of the text.
bool take_time(Cursor& c, Parts& p) {
  p.hour = c.number(1, 2);
  if (p.hour < 0) return false;
  if (c.take(':')) {
    p.minute = c.number(2, 2);
    if (p.minute < 0) return false;
    if (c.take(':')) {
      p.second = c.number(2, 2);
      if (p.second < 0) return false;
      if (c.take('.') || c.take(',')) p.nanoseconds = c.fraction();
    }
  }
  c.skip(" ");
  if (is_letter(c.peek()) && c.peek() != 'Z' && c.peek() != 'z') {
    const std::string word = c.word();
    if (word == "utc" || word == "gmt") return c.done();
    if (word != "am" && word != "pm") return false;
    p.half = word == "pm" ? 1 : 0;
    c.skip(" ");
  }
  return c.done() || (take_zone(c, p) && c.done());
}

// "20200131", "2020-01-31", "2020-01", "01/31/2020", "31.01.2020".
bool take_numeric_date(Cursor& c, Parts& p, bool day_first) {
  const size_t digits = c.digits_ahead();
  if (digits == 8) {
    p.year = c.number(4, 4);
    p.month = c.number(2, 2);
    p.day = c.number(2, 2);
    return true;
  }
  if (digits == 0 || digits == 3 || digits > 4) return false;
  const int64_t first = c.number(1, 4);
  const char mark = c.peek();
  if (mark != '-' && mark != '/' && mark != '.') return false;
  c.take(mark);
  if (is_letter(c.peek())) {
    p.month = position_of(c.word(), kMonths);
    const size_t last = c.take(mark) ? c.digits_ahead() : 0;
    const int64_t second = c.number(1, 4);
    p.day = digits == 4 ? second : first;
    p.year = digits == 4 ? first : full_year(second, last);
    return p.month > 0 && (digits == 4 || last == 2 || last == 4);
  }
  const int64_t second = c.number(1, 2);
  if (second < 0) return false;
  if (digits == 4) {
    p.year = first;
    p.month = second;
    if (!c.take(mark)) return mark == '-';
    p.day = c.number(1, 2);
    return p.day > 0;
  }
  if (!c.take(mark)) return false;
  const size_t last = c.digits_ahead();
  p.year = full_year(c.number(2, 4), last);
  const bool swapped = (day_first || mark == '.' || first > 12) && second <= 12;
  if (mark != '.')
    p.first = first > 12    ? Moment::First::Day
              : second > 12 ? Moment::First::Month
                            : Moment::First::Either;
  p.month = swapped ? second : first;
  p.day = swapped ? first : second;
  return last == 2 || last == 4;
}

// "Jan 31, 2020", "31 January 2020", "Fri, 31 Jan 2020".
bool take_named_date(Cursor& c, Parts& p) {
  constexpr std::string_view kBetween = " ,.-";
  int64_t day = 0;
  if (is_digit(c.peek())) {
    day = c.number(1, 2);
    c.skip(kBetween);
  }
  std::string word = c.word();
  if (day == 0 && position_of(word, kDays) > 0) {
    c.skip(kBetween);
    if (is_digit(c.peek())) {
      day = c.number(1, 2);
      c.skip(kBetween);
    }
    word = c.word();
  }
  p.month = position_of(word, kMonths);
  if (p.month == 0) return false;
  c.skip(kBetween);
  if (day == 0 && c.digits_ahead() <= 2) {
    day = c.number(1, 2);
    c.skip(kBetween);
  }
  p.day = day == 0 ? 1 : day;
  const size_t digits = c.digits_ahead();
  p.year = full_year(c.number(2, 4), digits);
  return p.day > 0 && p.year >= 0 && (digits == 2 || digits == 4);
}

// --- formats -------------------------------------------------------------------------------------

bool take_year(Cursor& c, Parts& p, size_t digits) {
  const int64_t year = c.number(digits, digits);
  p.year = full_year(year, digits);
  return year >= 0;
}

bool take_name(Cursor& c, Parts& p, bool month) {
  const std::string word = c.word();
  if (month) p.month = position_of(word, kMonths);
  return month ? p.month > 0 : position_of(word, kDays) > 0;
}

// The part of a date that a letter behind '%' stands for.
bool take_directive(Cursor& c, Parts& p, char letter) {
  const auto two = [&](int64_t& part) { return (part = c.number(1, 2)) >= 0; };
  switch (letter) {
    case 'Y': return take_year(c, p, 4);
    case 'y': return take_year(c, p, 2);
    case 'm': return two(p.month);
    case 'd': return two(p.day);
    case 'H': return two(p.hour);
    case 'I': p.half = std::max(p.half, 0); return two(p.hour);
    case 'M': return two(p.minute);
    case 'S': return two(p.second);
    case 'f': p.nanoseconds = c.fraction(); return true;
    case 'z': return take_zone(c, p);
    case 'b':
    case 'B': return take_name(c, p, true);
    case 'a':
    case 'A': return take_name(c, p, false);
    case 'p': {
      const std::string word = c.word();
      p.half = word == "pm" ? 1 : 0;
      return word == "am" || word == "pm";
    }
    case '%': return c.take('%');
    default: fail("'date_format' has no part '%", std::string(1, letter), "'");
  }
}

std::optional<Moment> by_format(std::string_view text, std::string_view format) {
  Cursor c(text);
  Parts p;
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] == '%' && i + 1 < format.size()) {
      if (!take_directive(c, p, format[++i])) return {};
    } else if (!c.take(format[i])) {
      return {};
    }
  }
  return c.done() ? moment_of(p) : std::optional<Moment>();
}

}  // namespace

std::optional<Moment> date_of(std::string_view text, const DateOrder& order) {
  if (!order.format.empty()) return by_format(text, order.format);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  Cursor c(text);
  c.skip(" ");
  Parts p;
  Cursor named = c;
  if (!take_numeric_date(c, p, order.day_first)) {
    c = named;
    p = Parts();
    if (!take_named_date(c, p)) return {};
  }
  if (c.done()) return moment_of(p);
  if (!c.take('T') && !c.take(' ')) return {};
  c.skip(" ");
  if (!take_time(c, p)) return {};
  return moment_of(p);
}

DateFields date_fields(int64_t seconds) {
  int64_t days = seconds / kDaySeconds;
  int64_t rest = seconds % kDaySeconds;
  if (rest < 0) {
    rest += kDaySeconds;
    --days;
  }
  const int64_t shifted = days + 719468;
  const int64_t era = (shifted >= 0 ? shifted : shifted - 146096) / 146097;
  const int64_t of_era = shifted - era * 146097;
  const int64_t years = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
  const int64_t of_year = of_era - (365 * years + years / 4 - years / 100);
  const int64_t month = (5 * of_year + 2) / 153;
  DateFields out{};
  out.day = of_year - (153 * month + 2) / 5 + 1;
  out.month = month < 10 ? month + 3 : month - 9;
  out.year = years + era * 400 + (out.month <= 2 ? 1 : 0);
  out.hour = rest / 3600;
  out.minute = rest % 3600 / 60;
  out.second = rest % 60;
  // 1970 began on a Thursday; Sunday is the first day, as in Lua.
  out.weekday = (days % 7 + 7 + 4) % 7 + 1;
  out.yearday = days - days_of(out.year, 1, 1) + 1;
  return out;
}

std::string date_text(double seconds) {
  const double whole = std::floor(seconds);
  const int64_t nanoseconds = static_cast<int64_t>(std::llround((seconds - whole) * 1e6)) * 1000;
  const DateFields f = date_fields(static_cast<int64_t>(whole) + nanoseconds / 1000000000);
  char buffer[80];
  std::snprintf(buffer, sizeof buffer, "%04lld-%02lld-%02lld", static_cast<long long>(f.year),
                static_cast<long long>(f.month), static_cast<long long>(f.day));
  std::string out = buffer;
  const int64_t micros = nanoseconds / 1000 % 1000000;
  if (f.hour == 0 && f.minute == 0 && f.second == 0 && micros == 0) return out;
  std::snprintf(buffer, sizeof buffer, " %02lld:%02lld:%02lld", static_cast<long long>(f.hour),
                static_cast<long long>(f.minute), static_cast<long long>(f.second));
  out += buffer;
  if (micros == 0) return out;
  std::snprintf(buffer, sizeof buffer, ".%06lld", static_cast<long long>(micros));
  return out + buffer;
}

}  // namespace moonlet::io
