#include "ckpt/megatron_checkpoint.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <random>
#include <thread>

#include "tests/ckpt/sample.h"
#include "tests/ckpt/support.h"

namespace mt {
namespace {

namespace fs = std::filesystem;
using test::check_sample;
using test::error_of;
using test::save_sample;
using test::TemporaryFolder;
using test::testdata;
using test::write_whole;

const std::string kTracker = "latest_checkpointed_iteration.txt";

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

// --- Finding
// ----------------------------------------------------------------------------------------

TEST(FindCheckpoint, Tracker) {
  const TemporaryFolder save;
  EXPECT_FALSE(find_checkpoint(save.path()));
  fs::create_directory(save / "iter_0000120");
  fs::create_directory(save / "iter_12345678");
  fs::create_directory(save / "release");
  EXPECT_FALSE(find_checkpoint(save.path()));  // nothing there is whole
  for (const char* name : {"iter_0000120", "iter_12345678", "release"})
    write_whole(save / concat(name, "/metadata.json"), "");
  write_whole(save / kTracker, " 120\n");
  EXPECT_EQ(find_checkpoint(save.path())->folder, save / "iter_0000120");
  EXPECT_EQ(find_checkpoint(save.path())->iteration, 120);
  EXPECT_EQ(find_checkpoint(save.path(), 12345678)->folder, save / "iter_12345678");
  EXPECT_EQ(list_checkpoints(save.path()), (std::vector<std::int64_t>{120, 12345678}));
  write_whole(save / kTracker, "release");
  EXPECT_TRUE(find_checkpoint(save.path(), 120)->release);
  EXPECT_EQ(find_checkpoint(save.path())->iteration, 0);
  for (const char* wrong : {"", "0", "-1", "12x", "1 2", "99999999999999999999", "releases"}) {
    write_whole(save / kTracker, wrong);
    EXPECT_NE(error_of([&] { find_checkpoint(save.path()); }), "") << wrong;
  }
  std::filesystem::remove(save / kTracker);
  EXPECT_EQ(error_of([&] { find_checkpoint(save.path()); }, Exit::no_input),
            concat(save.path(), ": holds iter_0000120, iter_12345678, release, but no ", kTracker,
                   ", which says with a number or `release` what to go on from"));
  EXPECT_EQ(find_checkpoint(save.path(), 120)->iteration, 120);
  write_whole(save / kTracker, "7");
  EXPECT_NE(error_of([&] { find_checkpoint(save.path()); }, Exit::no_input).find("names it"),
            std::string::npos);
}

TEST(FindCheckpoint, FormatByContent) {
  const TemporaryFolder folder;
  EXPECT_NE(error_of([&] { detect_checkpoint_format(folder.path()); }), "");
  write_whole(folder / ".metadata", "");
  EXPECT_EQ(detect_checkpoint_format(folder.path()), CheckpointFormat::torch_dcp);
  fs::create_directory(folder / "mp_rank_00_000");
  EXPECT_EQ(detect_checkpoint_format(folder.path()), CheckpointFormat::torch);
  EXPECT_NE(error_of([&] { MegatronCheckpoint(folder.path()); }).find("metadata.json"),
            std::string::npos);
  write_whole(folder / "metadata.json", R"({"sharded_backend": "torch_dist"})");
  EXPECT_EQ(detect_checkpoint_format(folder.path()), CheckpointFormat::torch_dist);
  for (const char* wrong :
       {R"({"sharded_backend": "zarr"})", "{}", "[", "{\"sharded_backend\":1}"}) {
    write_whole(folder / "metadata.json", wrong);
    EXPECT_NE(error_of([&] { detect_checkpoint_format(folder.path()); }), "") << wrong;
  }
  EXPECT_NE(error_of([&] { detect_checkpoint_format(folder / "none"); }, Exit::no_input), "");
}

// --- Loading and saving
// -----------------------------------------------------------------------------

TEST(MegatronCheckpoint, OfMegatronItself) {
  const MegatronCheckpoint checkpoint(testdata("mcore"));
  EXPECT_EQ(checkpoint.manifest_extra(), "{}");
  EXPECT_EQ(checkpoint.common().at("iteration", "").as_integer(""), 5);
  EXPECT_EQ(checkpoint.common().at("args", "").at("num_layers", "").as_integer(""), 2);
  EXPECT_EQ(checkpoint.tensors().tensors().size(), 2u);
}

TEST(MegatronCheckpoint, CommonStateAsAnObject) {  // as newer Megatron writes it
  const TemporaryFolder folder;
  DistWriter writer(folder.path(), 0);
  writer.add_object("common_state/shard_0_1", PyValue::list({PyValue::dict({{"iteration", 9}})}));
  write_dist_metadata(folder.path(), {writer.close()});
  write_whole(folder / "metadata.json", R"({"sharded_backend": "torch_dist"})");
  EXPECT_EQ(MegatronCheckpoint(folder.path()).common().at("iteration", "").as_integer(""), 9);
}

TEST(CheckpointSave, CommonStateAsAnObjectWithTensors) {
  const TemporaryFolder folder;
  const float steps[] = {7, 8};
  {
    CheckpointSave save(folder.path(), 9);
    const PyValue tensor = save.common_writer().tensor({steps, DType::f32, {2}});
    const PyValue common = PyValue::dict({{"iteration", 9}, {"steps", tensor}});
    DistWriter writer(save.folder(), 0);
    writer.add("w", {steps, DType::f32, {2}});
    writer.add_object(kCommonObject, PyValue::list({common}), save.common_writer());
    CheckpointSave::Content content;
    content.files.push_back(writer.close());
    save.finish(content);
    save.publish();
  }
  const std::string made = folder / "iter_0000009";
  EXPECT_EQ(names_in(made), (std::vector<std::string>{".metadata", "__0_0.distcp", "metadata.json",
                                                      "mt-manifest.json"}));
  EXPECT_EQ(read_file(made + "/metadata.json"),
            R"({"sharded_backend": "torch_dist", "sharded_backend_version": 1})");
  // A file of an older save that the manifest does not know is not taken for the common state.
  write_whole(made + "/common.pt", "older");
  const MegatronCheckpoint checkpoint(made);
  EXPECT_EQ(checkpoint.common().at("iteration", "").as_integer(""), 9);
  float found[2];
  checkpoint.read_common_tensor(checkpoint.common().at("steps", ""), {found, DType::f32, {2}});
  EXPECT_EQ(found[0], 7);
  EXPECT_EQ(found[1], 8);
}

TEST(MegatronCheckpoint, WithoutCommonState) {
  const TemporaryFolder folder;
  const float one = 1;
  DistWriter writer(folder.path(), 0);
  writer.add("w", {&one, DType::f32, {}});
  write_dist_metadata(folder.path(), {writer.close()});
  write_whole(folder / "metadata.json", R"({"sharded_backend": "torch_dist"})");
  EXPECT_NE(error_of([&] { MegatronCheckpoint(folder.path()); }).find("neither common.pt"),
            std::string::npos);
}

TEST(CheckpointSave, ComesBackWhole) {
  const TemporaryFolder save;
  save_sample(save / "deep/er", 1000);
  const auto place = find_checkpoint(save / "deep/er");
  ASSERT_TRUE(place);
  EXPECT_EQ(place->iteration, 1000);
  check_sample(*place);
  EXPECT_EQ(read_file(save / ("deep/er/" + kTracker)), "1000");
  EXPECT_EQ(read_file(place->folder + "/metadata.json"),
            "{\"sharded_backend\": \"torch_dist\", \"sharded_backend_version\": 1, "
            "\"common_backend\": \"torch\", \"common_backend_version\": 1}");
  EXPECT_EQ(names_in(save / "deep/er"), (std::vector<std::string>{"iter_0001000", kTracker}));
}

TEST(CheckpointSave, SameContentSameBytes) {
  const TemporaryFolder a, b;
  save_sample(a.path(), 3);
  save_sample(b.path(), 3);
  for (const std::string& name : names_in(a / "iter_0000003"))
    EXPECT_EQ(read_file(a / ("iter_0000003/" + name)), read_file(b / ("iter_0000003/" + name)));
}

TEST(CheckpointSave, ReplacesTheSameIteration) {
  const TemporaryFolder save;
  save_sample(save.path(), 5);
  write_whole(save / "iter_0000005/__9_0.distcp", "");  // of a save by more ranks
  save_sample(save.path(), 5);
  check_sample(*find_checkpoint(save.path()));
  EXPECT_FALSE(fs::exists(save / "iter_0000005/__9_0.distcp"));
  EXPECT_EQ(names_in(save.path()), (std::vector<std::string>{"iter_0000005", kTracker}));
}

TEST(CheckpointSave, IterationZeroIsARelease) {
  const TemporaryFolder save;
  save_sample(save.path(), 1);
  save_sample(save.path(), 0);
  const auto place = find_checkpoint(save.path());
  ASSERT_TRUE(place);
  EXPECT_TRUE(place->release);
  EXPECT_EQ(place->folder, save / "release");
  check_sample(*place);
}

TEST(CheckpointSave, AbandonedLeavesNothing) {
  const TemporaryFolder save;
  save_sample(save.path(), 1);
  const auto before = names_in(save.path());
  {
    CheckpointSave abandoned(save.path(), 2);
    DistWriter writer(abandoned.folder(), 0);
    EXPECT_EQ(names_in(save.path()).size(), before.size() + 1);
  }
  EXPECT_EQ(names_in(save.path()), before);
}

TEST(CheckpointSave, IncompleteTensorIsNotPublished) {
  const TemporaryFolder save;
  save_sample(save.path(), 1);
  const std::string error = error_of([&] {
    CheckpointSave next(save.path(), 2);
    const float half[2] = {};
    DistWriter writer(next.folder(), 0);
    writer.add("w", {4}, {0}, {half, DType::f32, {2}});
    next.finish({.files = {writer.close()}, .common = PyValue::dict()});
    next.publish();
  });
  EXPECT_EQ(error, "w: chunks cover 2 of 4 elements");
  check_sample(*find_checkpoint(save.path()));
  EXPECT_EQ(names_in(save.path()), (std::vector<std::string>{"iter_0000001", kTracker}));
}

TEST(CheckpointSave, FileOfAnotherHostIsMissed) {
  const TemporaryFolder save;
  EXPECT_NE(error_of(
                [&] {
                  CheckpointSave next(save.path(), 2);
                  WrittenFile absent;
                  absent.name = "__1_0.distcp";
                  next.finish({.files = {absent}, .common = PyValue::dict()});
                },
                Exit::io_error)
                .find("all ranks share"),
            std::string::npos);
}

// --- What earlier processes left
// --------------------------------------------------------------------

TEST(CheckpointSave, RemovesWhatTheDeadLeft) {
  const TemporaryFolder save;
  const pid_t dead = ::fork();
  if (dead == 0) ::_exit(0);
  ::waitpid(dead, nullptr, 0);
  const std::string pid = std::to_string(dead), own = std::to_string(::getpid());
  fs::create_directories(save / ("iter_0000003.tmp." + pid + "/sub"));
  write_whole(save / ("iter_0000003.tmp." + pid + "/" + kSaveMark), "");
  fs::create_directories(save / ("iter_0000004.tmp." + pid + "/sub"));  // not ours
  fs::create_directory(save / ("iter_0000002.tmp." + own));  // of a process that had our number
  fs::create_directory(save / "iter_0000002.tmp.notes");     // not ours
  write_whole(save / (kTracker + ".tmp." + pid), "3");
  fs::create_directory(save / "iter_0000001.replaced");
  fs::create_directories(save / "iter_0000005.replaced/sub");  // not ours
  const CheckpointSave living(save.path(), 7);
  save_sample(save.path(), 2);
  EXPECT_EQ(names_in(save.path()),
            (std::vector<std::string>{"iter_0000001", "iter_0000002", "iter_0000002.tmp.notes",
                                      "iter_0000004.tmp." + pid, "iter_0000005.replaced",
                                      "iter_0000007.tmp." + own, kTracker}));
}

TEST(MoveIntoPlace, WithAndWithoutExchange) {
  for (const bool may_exchange : {true, false}) {
    const TemporaryFolder folder;
    for (const char* name : {"new", "old"}) {
      fs::create_directory(folder / name);
      write_whole(folder / (std::string(name) + "/file"), name);
    }
    write_whole(folder / "old/late", "theirs");
    const OwnFile own = [](const std::string& name) { return name == "file"; };
    move_into_place(folder / "new", folder / "old",
                    {.own = [&](const std::string&) { return own; }}, may_exchange);
    EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"old"});
    EXPECT_EQ(read_file(folder / "old/file"), "new");
    EXPECT_EQ(read_file(folder / "old/late"), "theirs");
  }
}

TEST(MoveIntoPlace, KilledBetweenItsTwoRenames) {  // without exchange: only the old one, set aside
  const TemporaryFolder save;
  save_sample(save.path(), 4);
  write_whole(save / ("iter_0000004/" + std::string(kSaveMark)), "");
  fs::rename(save / "iter_0000004", save / "iter_0000004.replaced");
  check_sample(*find_checkpoint(save.path()));
  save_sample(save.path(), 5);
  EXPECT_EQ(list_checkpoints(save.path()), (std::vector<std::int64_t>{4, 5}));
  check_sample(*find_checkpoint(save.path(), 4));
}

// --- What others keep beside checkpoints, and in them
// --------------------------------------------------------------------

TEST(CheckpointSave, KilledBeforeItsTracker) {
  const TemporaryFolder save;
  const auto put_back_mark = [&](const std::string& folder) {
    write_whole(save / concat(folder, "/", kSaveMark), "");
    fs::remove(save / kTracker);
  };
  save_sample(save.path(), 4);
  put_back_mark("iter_0000004");
  check_sample(*find_checkpoint(save.path()));
  complete_saves(save.path());
  EXPECT_EQ(read_file(save / kTracker), "4");
  save_sample(save.path(), 8);
  put_back_mark("iter_0000004");  // which is not the newest: this tracker was lost
  EXPECT_NE(error_of([&] { find_checkpoint(save.path()); }, Exit::no_input).find("holds iter_"),
            std::string::npos);
  complete_saves(save.path());
  EXPECT_FALSE(fs::exists(save / kTracker));
}

TEST(CheckpointSave, FilesOfOthersStay) {
  const TemporaryFolder save;
  save_sample(save.path(), 4);
  save_sample(save.path(), 8);
  const std::string folder = save / "iter_0000004", gone = folder + "/__7_0.distcp";
  fs::create_directories(folder + "/hf/.git");
  for (const std::string& path : {folder + "/notes.txt", folder + "/hf/.git/HEAD",
                                  folder + "/common.pt.bak", save / "run.sh"})
    write_whole(path, "mine");
  write_whole(gone, "of a former save on more ranks");
  save_sample(save.path(), 4);
  check_sample(*find_checkpoint(save.path(), 4));
  check_sample(*find_checkpoint(save.path(), 8));
  EXPECT_FALSE(fs::exists(gone));
  for (const std::string& path : {folder + "/notes.txt", folder + "/hf/.git/HEAD",
                                  folder + "/common.pt.bak", save / "run.sh"})
    EXPECT_EQ(read_file(path), "mine") << path;
  delete_checkpoint(save.path(), 4);  // not with what is not its own
  EXPECT_EQ(read_file(folder + "/notes.txt"), "mine");
  check_sample(*find_checkpoint(save.path(), 4));
  delete_checkpoint(save.path(), 8);
  EXPECT_EQ(names_in(save.path()), (std::vector<std::string>{"iter_0000004", kTracker, "run.sh"}));
}

TEST(CheckpointSave, OwnFilesAreThoseOfItsManifestAndMegatrons) {
  const TemporaryFolder folder;
  const OwnFile unlisted = checkpoint_files().own(folder.path());
  for (const char* name : {"common.pt", "metadata.json", ".metadata", "__0_1.distcp",
                           "mp_rank_00/model_optim_rng.pt", "mp_rank_01_002/distrib_optim.pt",
                           "mp_rank_01_002_003/model_optim_rng.pt", "mt-manifest.json"})
    EXPECT_TRUE(unlisted(name)) << name;
  for (const char* name : {"tokenizer/vocab.json", "mp_rank_00/notes.txt", "x/common.pt",
                           "common.pt.old", "__0_1.distcp.tmp", "mp_rank_xx/distrib_optim.pt"})
    EXPECT_FALSE(unlisted(name)) << name;
  write_whole(folder / kManifestName,
              encode_checkpoint_manifest({3, {{"tokenizer/my-words.txt", 3, "0"}}, "{}"}));
  const OwnFile listed = checkpoint_files().own(folder.path());
  EXPECT_TRUE(listed("tokenizer/my-words.txt"));
  EXPECT_FALSE(listed("tokenizer/notes.txt"));
}

// --- Damage
// -----------------------------------------------------------------------------------------

// MT_FLIPS sets how many bits of each file; the nightly run asks for 1000.
TEST(Manifest, EveryFlippedBitIsFoundAndItsFileNamed) {
  const char* const asked = std::getenv("MT_FLIPS");
  const int flips = asked == nullptr ? 40 : std::atoi(asked);
  const TemporaryFolder save;
  save_sample(save.path(), 6);
  const std::string folder = save / "iter_0000006";
  std::mt19937 random(5);
  for (const std::string& name : names_in(folder)) {
    const std::string whole = read_file(folder + "/" + name);
    for (int trial = 0; trial < flips; ++trial) {
      std::string flipped = whole;
      const std::size_t bit = random() % (whole.size() * 8);
      flipped[bit / 8] ^= static_cast<char>(1 << bit % 8);
      write_whole(folder + "/" + name, flipped);
      EXPECT_NE(error_of([&] { MegatronCheckpoint{folder}; }).find(name), std::string::npos)
          << name << " bit " << bit;
    }
    write_whole(folder + "/" + name, whole.substr(0, whole.size() - 1));
    EXPECT_NE(error_of([&] { MegatronCheckpoint{folder}; }).find(name), std::string::npos);
    write_whole(folder + "/" + name, whole);
  }
  check_sample(*find_checkpoint(save.path()));
}

TEST(Manifest, PartsTogetherCheckAll) {
  const TemporaryFolder save;
  save_sample(save.path(), 6);
  const std::string path = save / "iter_0000006/__1_0.distcp";
  std::string content = read_file(path);
  content[100] ^= 1;
  write_whole(path, content);
  MegatronCheckpoint(save / "iter_0000006", {.index = 0, .count = 2});
  EXPECT_NE(error_of([&] { MegatronCheckpoint(save / "iter_0000006", {.index = 1, .count = 2}); }),
            "");
  fs::remove(path);
  EXPECT_NE(error_of([&] { MegatronCheckpoint(save / "iter_0000006", {.index = 0, .count = 2}); },
                     Exit::no_input)
                .find("__1_0.distcp"),
            std::string::npos);
}

TEST(Manifest, FilesThatItDoesNotListAreMissed) {
  const TemporaryFolder save;
  save_sample(save.path(), 6);
  const std::string folder = save / "iter_0000006";
  CheckpointManifest manifest = *read_checkpoint_manifest(folder);
  EXPECT_EQ(manifest.iteration, 6);
  manifest.files.erase(manifest.files.begin());
  write_whole(folder + "/mt-manifest.json", encode_checkpoint_manifest(manifest));
  EXPECT_NE(error_of([&] { MegatronCheckpoint{folder}; }).find("does not list __0_0.distcp"),
            std::string::npos);
}

// --- Failing disks and sudden deaths
// ----------------------------------------------------------------

// Runs `body` in a child process and returns its exit code; the test's own process stays as it is.
int exit_code_of(const std::function<void()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      body();
    } catch (const Error& error) {
      ::_exit(static_cast<int>(error.code()));
    }
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(CheckpointSave, NoSpaceLeavesThePreviousOne) {
  const TemporaryFolder save;
  save_sample(save.path(), 1);
  int failures = 0;
  for (rlim_t limit = 0; limit < 40'000; limit += 1000) {  // every file may grow to `limit` bytes
    const int code = exit_code_of([&] {
      ::signal(SIGXFSZ, SIG_IGN);
      const rlimit size = {limit, limit};
      ::setrlimit(RLIMIT_FSIZE, &size);
      save_sample(save.path(), 2);
    });
    if (code == 0) break;
    ++failures;
    EXPECT_EQ(code, static_cast<int>(Exit::io_error)) << limit;
    EXPECT_EQ(names_in(save.path()), (std::vector<std::string>{"iter_0000001", kTracker}));
    check_sample(*find_checkpoint(save.path()));
  }
  EXPECT_GT(failures, 10);
  EXPECT_EQ(find_checkpoint(save.path())->iteration, 2);
}

TEST(CheckpointSave, PlacesWhereNothingCanBeMade) {
  const TemporaryFolder save;
  write_whole(save / "file", "");
  EXPECT_NE(error_of([&] { CheckpointSave(save / "file/below", 1); }, Exit::cannot_create), "");
  EXPECT_NE(error_of([&] { CheckpointSave("/proc/self/none", 1); }, Exit::cannot_create), "");
}

// MT_KILLS sets how often; the release check asks for 10 000.
TEST(CheckpointSave, KilledAtRandomMoments) {
  const char* const asked = std::getenv("MT_KILLS");
  const int kills = asked == nullptr ? 20 : std::atoi(asked);
  const TemporaryFolder save;
  save_sample(save.path(), 1);
  std::mt19937 random(11);
  std::int64_t published = 1;
  for (int kill = 0; kill < kills; ++kill) {
    int pipe[2];
    ASSERT_EQ(::pipe(pipe), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      for (std::int64_t i = 1;; i = i % 5 + 1) {
        save_sample(save.path(), i);
        const char number = static_cast<char>(i);
        if (::write(pipe[1], &number, 1) != 1) ::_exit(1);
      }
    }
    ::close(pipe[1]);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 60'000));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    char number = 0;
    std::int64_t next = 1;  // what it may have published without having said so
    while (::read(pipe[0], &number, 1) == 1) {
      published = number;
      next = published % 5 + 1;
    }
    ::close(pipe[0]);
    const auto place = find_checkpoint(save.path());
    ASSERT_TRUE(place);
    check_sample(*place);
    EXPECT_TRUE(place->iteration == published || place->iteration == next)
        << place->iteration << " after " << published;
    published = place->iteration;
  }
  save_sample(save.path(), 9);
  for (const std::string& name : names_in(save.path()))
    EXPECT_EQ(name.find(".tmp."), std::string::npos) << name;
}

}  // namespace
}  // namespace mt
