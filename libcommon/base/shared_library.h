// SharedLibrary: a library that only some machines have, opened by the program that asks for it, so
// that it starts without.  It stays open until the process ends.
#pragma once

#include <initializer_list>
#include <string>

namespace mt {

class SharedLibrary {
 public:
  // The first of these that can be opened.  A bare name is looked for as the loader does: beside
  // the program's own libraries, in LD_LIBRARY_PATH, where the system has libraries.
  // Exit::unavailable with what the loader says of the first, and the advice.
  SharedLibrary(std::initializer_list<std::string> names, const char* advice);

  // Exit::unavailable if the library does not have it.
  void* symbol(const char* name) const;

 private:
  std::string name_;
  void* handle_ = nullptr;
};

}  // namespace mt
