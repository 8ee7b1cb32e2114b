#include "base/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

#include "tests/base/scratch.h"

namespace mt {

TEST(AtomicFile, AppearsWholeAtCommit) {
  const Scratch scratch;
  const std::string path = scratch.path("out");
  {
    AtomicFile file(path, false);
    file.write("half");
    EXPECT_FALSE(std::filesystem::exists(path));
    file.write(" and half");
    file.commit();
  }
  EXPECT_EQ(read_file(path), "half and half");
  EXPECT_EQ(scratch.entries(), 1u);
}

TEST(AtomicFile, LeavesNothingBehindWithoutCommit) {
  const Scratch scratch;
  {
    AtomicFile file(scratch.path("out"), false);
    file.write("half");
    EXPECT_EQ(scratch.entries(), 1u);
    const AtomicFile moved = std::move(file);
    EXPECT_EQ(scratch.entries(), 1u);
  }
  EXPECT_EQ(scratch.entries(), 0u);
}

TEST(AtomicFile, RefusesToOverwrite) {
  const Scratch scratch;
  const std::string path = scratch.path("out");
  write_file_atomically(path, "first", false);
  const std::string refusal = "73 " + path + ": exists already; --force overwrites it";
  EXPECT_EQ(error_of([&] { write_file_atomically(path, "second", false); }), refusal);
  EXPECT_EQ(read_file(path), "first");
  write_file_atomically(path, "third", true);
  EXPECT_EQ(read_file(path), "third");
  EXPECT_EQ(scratch.entries(), 1u);
}

TEST(AtomicFile, RefusesWhatAppearedMeanwhile) {
  const Scratch scratch;
  const std::string path = scratch.path("out");
  EXPECT_NE(error_of([&] {
              AtomicFile file(path, false);
              file.write("ours");
              write_file_atomically(path, "theirs", true);
              file.commit();
            }),
            "");
  EXPECT_EQ(read_file(path), "theirs");
  EXPECT_EQ(scratch.entries(), 1u);
}

TEST(AtomicFile, NeverReplacesAStreamOrAFolder) {
  const Scratch scratch;
  const std::string pipe = scratch.path("pipe"), folder = scratch.path("folder");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  std::filesystem::create_directory(folder);
  for (const bool overwrite : {false, true}) {
    EXPECT_EQ(error_of([&] { AtomicFile(pipe, overwrite); }),
              "73 " + pipe + ": is a pipe or a device, expected a file or nothing");
    EXPECT_EQ(error_of([&] { AtomicFile(folder, overwrite); }),
              "73 " + folder + ": is a folder, expected a file or nothing");
    EXPECT_EQ(error_of([&] { AtomicFile("-", overwrite); }),
              "64 -: is written as a file, which stdout cannot be; expected a file's name");
  }
  EXPECT_EQ(scratch.entries(), 2u);
}

TEST(AtomicFile, IsGoneOnWithByOneAtATime) {
  const Scratch scratch;
  const std::string path = scratch.path("file");
  {
    AtomicFile first(path, false, true);
    first.write("a");
    EXPECT_EQ(error_of([&] { AtomicFile(path, false, true); }),
              "73 " + path + ".part: another process is writing it");
  }
  AtomicFile next(path, false, true);
  next.write("b");
  next.commit();
  EXPECT_EQ(read_file(path), "ab");
}

// Of a small file, to which a stream says nothing of --force.
TEST(AtomicFile, IsWrittenIntoAStreamAsItIs) {
  const Scratch scratch;
  const std::string pipe = scratch.path("pipe"), file = scratch.path("file");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const File reader = File::open(pipe, O_NONBLOCK);
  write_file_atomically(pipe, "text", false);
  std::array<std::byte, 8> read;
  EXPECT_EQ(::read(reader.descriptor(), read.data(), read.size()), 4);
  EXPECT_TRUE(is_stream(pipe));

  File open_file = File::create(file);
  open_file.write("before, ");
  const std::string name = "/proc/self/fd/" + std::to_string(open_file.descriptor());
  const std::string link = scratch.path("link");
  std::filesystem::create_symlink(name, link);
  for (const std::string& stream : {name, link}) {
    EXPECT_TRUE(is_stream(stream));
    write_file_atomically(stream, "behind, ", false);
  }
  EXPECT_EQ(read_file(file), "before, behind, behind, ");
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_FALSE(is_stream(file));
  EXPECT_FALSE(is_stream(scratch.path("none")));
  EXPECT_FALSE(is_stream(scratch.path("")));
}

// Nobody can open a socket by its name, and nobody is waited for who would.
TEST(AtomicFile, OfASocketIsRefused) {
  const Scratch scratch;
  sockaddr_un address = {AF_UNIX, {}};
  const std::string path = scratch.path("socket");
  ASSERT_LT(path.size(), sizeof(address.sun_path));
  path.copy(address.sun_path, path.size());
  const File socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket");
  ASSERT_EQ(::bind(socket.descriptor(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  EXPECT_EQ(error_of([&] { write_file_atomically(path, "text", true); }),
            "73 " + path + ": cannot open: No such device or address");
}

// As of a process of another container that has our number.
TEST(AtomicFile, LeavesAnothersTemporaryFileAlone) {
  const Scratch scratch;
  const std::string path = scratch.path("out");
  AtomicFile theirs(path, true);
  theirs.write("theirs");
  AtomicFile ours(path, true);
  ours.write("ours");
  EXPECT_NE(theirs.temporary_path(), ours.temporary_path());
  theirs.commit();
  EXPECT_EQ(read_file(path), "theirs");
  ours.commit();
  EXPECT_EQ(read_file(path), "ours");
  EXPECT_EQ(scratch.entries(), 1u);
}

// What a process that was killed has left is nobody's.
TEST(AtomicFile, TakesATemporaryFileThatNobodyWrites) {
  const Scratch scratch;
  const std::string path = scratch.path("out");
  const std::string name = AtomicFile(path, true).temporary_path();
  File::create(name).write("more than will be written");
  AtomicFile file(path, true);
  EXPECT_EQ(file.temporary_path(), name);
  file.write("less");
  file.commit();
  EXPECT_EQ(read_file(path), "less");
}

TEST(AtomicFile, SweepsWhatDeadProcessesLeft) {
  const Scratch scratch;
  const pid_t dead = ::fork();
  if (dead == 0) ::_exit(0);
  ::waitpid(dead, nullptr, 0);
  const std::string path = scratch.path("out"), left = concat(path, ".tmp.", dead);
  for (const std::string& name : {left, left + ".1", left + ".12.1"})
    write_file_atomically(name, "left", true);
  const std::vector<std::string> others = {concat(path, ".tmp.", ::getppid()),
                                           concat(path, ".tmp.20261126"),
                                           concat(left, ".old"),
                                           concat(path, ".tmp.-", dead),
                                           concat(scratch.path("other.tmp."), dead),
                                           path + ".tmp."};
  for (const std::string& name : others) write_file_atomically(name, "mine", true);
  const File locked = File::create(concat(left, ".2"));
  ::flock(locked.descriptor(), LOCK_EX);
  write_file_atomically(path, "new", false);
  for (const std::string& name : others) EXPECT_EQ(read_file(name), "mine") << name;
  EXPECT_EQ(scratch.entries(), others.size() + 2);
}

// Its parent may be one that never looks.
TEST(AtomicFile, SweepsWhatIsLeftByOneThatWaitsToBeBuried) {
  const Scratch scratch;
  const pid_t dead = ::fork();
  if (dead == 0) ::_exit(0);
  siginfo_t info;
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(dead), &info, WEXITED | WNOWAIT), 0);
  const std::string path = scratch.path("out");
  write_file_atomically(concat(path, ".tmp.", dead), "left", true);
  write_file_atomically(path, "new", false);
  EXPECT_EQ(scratch.entries(), 1U);
  ::waitpid(dead, nullptr, 0);
}

TEST(AtomicFile, SeveralGetTheirNamesInOrder) {
  const Scratch scratch;
  AtomicFile a(scratch.path("a"), true), b(scratch.path("b"), false), c(scratch.path("c"), true);
  write_file_atomically(scratch.path("b"), "theirs", true);
  const std::array files = {&a, &b, &c};
  EXPECT_EQ(error_of([&] { commit_together(files); }),
            "73 " + scratch.path("b") + ": exists already; --force overwrites it");
  EXPECT_TRUE(a.has_name());
  EXPECT_FALSE(c.has_name());
  AtomicFile d(scratch.path("d"), false), e(scratch.path("e"), false);
  d.write("one");
  e.write("two");
  commit_together(std::array{&d, &e});
  EXPECT_EQ(read_file(scratch.path("d")) + read_file(scratch.path("e")), "onetwo");
}

TEST(AtomicFile, RoomThatIsReservedIsGivenBack) {
  const Scratch scratch;
  AtomicFile file(scratch.path("x"), false);
  file.write("12345");
  if (!file.reserve(5, 8 << 20)) GTEST_SKIP() << "no file system here that reserves room";
  struct stat status;
  EXPECT_EQ(read_file(file.temporary_path()), "12345");
  file.cut(5);
  file.commit();
  ASSERT_EQ(::stat(scratch.path("x").c_str(), &status), 0);
  EXPECT_LT(status.st_blocks * 512, 1 << 20);
}

TEST(File, ErrorsNameTheFile) {
  const Scratch scratch;
  const std::string missing = scratch.path("missing"), folder = scratch.path("");
  EXPECT_EQ(error_of([&] { File::open(missing); }),
            "66 " + missing + ": cannot open: No such file or directory");
  EXPECT_EQ(error_of([&] { File::open(folder); }),
            "66 " + folder + ": is a directory, expected a file");
  EXPECT_EQ(error_of([&] { File::create(missing + "/x"); }),
            "73 " + missing + "/x: cannot create: no such folder");
  EXPECT_EQ(error_of([] { File::create("/dev/full").write("x"); }),
            "74 /dev/full: cannot write: No space left on device");
}

TEST(File, ReadAtWantsAllItsBytes) {
  const Scratch scratch;
  const std::string path = scratch.path("x");
  write_file_atomically(path, "0123456789", false);
  const File file = File::open(path);
  std::byte four[4];
  file.read_at(6, four);
  EXPECT_EQ(as_text(four), "6789");
  EXPECT_EQ(file.size(), 10u);
  EXPECT_EQ(error_of([&] { file.read_at(8, four); }).substr(0, 2), "65");
}

TEST(MappedFile, HoldsTheBytes) {
  const Scratch scratch;
  write_file_atomically(scratch.path("x"), "abc", false);
  write_file_atomically(scratch.path("empty"), "", false);
  MappedFile first(scratch.path("x"));
  const MappedFile moved = std::move(first);
  EXPECT_EQ(as_text(moved.bytes()), "abc");
  EXPECT_TRUE(MappedFile(scratch.path("empty")).bytes().empty());
}

TEST(MappedFile, IsAFileAndNoPipe) {
  const Scratch scratch;
  ASSERT_EQ(::mkfifo(scratch.path("pipe").c_str(), 0600), 0);
  EXPECT_EQ(error_of([&] { MappedFile{scratch.path("pipe")}; }),
            "66 " + scratch.path("pipe") + ": is a pipe or a device, expected a file");
}

TEST(RefuseInputs, ByAnyName) {
  const Scratch scratch;
  const std::string in = scratch.path("in"), link = scratch.path("link"),
                    hard = scratch.path("hard"), other = scratch.path("other");
  write_file_atomically(in, "1", false);
  write_file_atomically(other, "2", false);
  std::filesystem::create_symlink("in", link);
  std::filesystem::create_hard_link(in, hard);
  const auto refuse = [](const std::string& output, std::vector<std::string> inputs) {
    return error_of([&] { refuse_inputs(std::array{output, std::string()}, inputs); });
  };
  for (const std::string& output : {in, link, hard, scratch.path("./in")}) {
    EXPECT_EQ(refuse(output, {"-", "", other, in}),
              concat("64 output ", output, ": is the input ", in, "; expected another"));
    EXPECT_NE(refuse(output, {link}), "");
    EXPECT_EQ(refuse(output, {"-", "", other, scratch.path("none")}), "");
  }
  EXPECT_EQ(refuse(scratch.path("none"), {in, scratch.path("none")}), "");  // nothing is lost there
}

TEST(File, ParentDirectory) {
  EXPECT_EQ(parent_directory("x"), ".");
  EXPECT_EQ(parent_directory("a/b/x"), "a/b");
  EXPECT_EQ(parent_directory("/x"), "/");
}

}  // namespace mt
