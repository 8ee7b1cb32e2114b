#include "ckpt/save_lock.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <sstream>

#include "base/error.h"

namespace mt {

static std::string own_host() {
  std::array<char, 256> name = {};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

// What the file holds: "PID HOST".
struct Owner {
  pid_t pid = 0;
  std::string host = "another host";

  bool runs_here() const {
    return pid > 0 && pid != ::getpid() && host == own_host() &&
           (::kill(pid, 0) == 0 || errno != ESRCH);
  }
};

static Owner owner_in(int descriptor) {
  std::array<char, 512> content = {};
  Owner owner;
  if (::pread(descriptor, content.data(), content.size() - 1, 0) > 0)
    std::istringstream(content.data()) >> owner.pid >> owner.host;
  return owner;
}

// Whether the name still leads to the open file, which a process at its end may have removed.
static bool is_named(int descriptor, const std::string& path) {
  struct stat opened, named;
  return ::fstat(descriptor, &opened) == 0 && ::stat(path.c_str(), &named) == 0 &&
         opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
}

SaveLock::SaveLock(const std::string& folder, const std::string& part)
    : folder_(folder), path_(concat(folder, "/.mt-lock", part)) {
  for (;;) {
    descriptor_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (descriptor_ < 0) fail_errno(path_, "cannot create", Exit::cannot_create);
    const bool locked = ::flock(descriptor_, LOCK_EX | LOCK_NB) == 0;
    const bool is_taken = !locked && errno == EWOULDBLOCK;
    const Owner owner = owner_in(descriptor_);
    if (is_taken || (!locked && owner.runs_here())) {
      ::close(descriptor_);
      fail(Exit::cannot_create, folder, ": ",
           owner.pid > 0 ? concat("pid ", owner.pid, " on ", owner.host) : "another process",
           " saves here; wait for it, end it, or save elsewhere");
    }
    if (is_named(descriptor_, path_)) break;
    ::close(descriptor_);
  }
  const std::string own = concat(::getpid(), " ", own_host(), "\n");
  // On a full disk the lock holds all the same; only its owner is not told.
  [[maybe_unused]] const bool written =
      ::ftruncate(descriptor_, 0) == 0 && ::pwrite(descriptor_, own.data(), own.size(), 0) > 0;
}

SaveLock::~SaveLock() {
  ::unlink(path_.c_str());
  ::close(descriptor_);
  if (owns_folder_) ::rmdir(folder_.c_str());  // which fails where something is in it
}

}  // namespace mt
