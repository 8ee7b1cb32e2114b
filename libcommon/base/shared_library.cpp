#include "base/shared_library.h"

#include <dlfcn.h>

#include "base/error.h"

namespace mt {

SharedLibrary::SharedLibrary(std::initializer_list<std::string> names, const char* advice) {
  std::string first_word;
  for (const std::string& name : names) {
    handle_ = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    name_ = name;
    if (handle_ != nullptr) return;
    if (first_word.empty()) first_word = ::dlerror();
  }
  fail(Exit::unavailable, first_word, "; ", advice);
}

void* SharedLibrary::symbol(const char* name) const {
  void* const found = ::dlsym(handle_, name);
  if (found == nullptr) fail(Exit::unavailable, name_, ": has no ", name);
  return found;
}

}  // namespace mt
