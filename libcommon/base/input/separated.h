// Lines of fields that a character parts, as in files of comma- or tab-separated values.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mt {

// The fields of a line, whose end may be "\r".  With `quotes` a field may stand in double quotes,
// in which the separator parts nothing and a doubled quote is one (RFC 4180); one in a field that
// does not begin with one is a quote, as Python's csv has it.  `open`, if it is given, becomes
// whether the last quote does not end.
std::vector<std::string> separated_fields(std::string_view line, char separator, bool quotes,
                                          bool* open = nullptr);

}  // namespace mt
