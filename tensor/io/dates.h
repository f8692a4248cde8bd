// tensor/io/dates.h: dates and times in texts, as seconds since 1970 in UTC.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace moonlet::io {

// How the dates of a column are written.
struct DateOrder {
  bool day_first = false;  // "02/03/2020" is the second of March
  std::string format;      // of strftime; empty for the forms that `date_of` knows
};

struct Moment {
  int64_t seconds = 0;      // since 1970, UTC
  int64_t nanoseconds = 0;  // from 0 to 999999999
  // Of "13/01/2020" the day is first, of "01/13/2020" the month, of "01/02/2020" either may be.
  enum class First : uint8_t { Other, Day, Month, Either } first = First::Other;
};

// The date that a text is: 2020-01-31, 2020/01/31, 20200131, 31.01.2020, 01/31/2020, 31-Jan-2020,
// Jan 31, 2020, and so on, alone or with a time, 12:30, 12:30:15.25, 2:30 pm, and a zone, Z or
// +02:00; without a zone it is UTC. Nothing where it is none.
std::optional<Moment> date_of(std::string_view text, const DateOrder& order);

// "2020-01-31" or "2020-01-31 12:30:15.25" for seconds since 1970.
std::string date_text(double seconds);

struct DateFields {
  int64_t year, month, day, hour, minute, second, weekday, yearday;  // all but hours from 1
};
DateFields date_fields(int64_t seconds);

}  // namespace moonlet::io
