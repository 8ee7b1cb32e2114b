// What lies where a path that is not there leads, for errors that name it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mt {

// Names in the folder of a path ("folder/" has those in it), sorted: all that end so, without that
// end, but for hidden ones.  None where the folder cannot be listed.
std::vector<std::string> names_beside(const std::string& path, std::string_view ending = {});

// "a, b, c and 4 more", or "nothing".
std::string names_text(const std::vector<std::string>& names);

// "; did you mean data/tiny?", which lies there, or "; in data are a, b and 3 more", or what is
// wrong with the folder; `ending` as above.
std::string what_is_there(const std::string& path, std::string_view ending = {});

}  // namespace mt
