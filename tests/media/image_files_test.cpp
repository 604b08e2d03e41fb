#include <tessera/tessera.hpp>

#include "support/expect_error.hpp"
#include "support/folder.hpp"
#include "support/jpeg_file.hpp"
#include "support/pictures.hpp"
#include "support/png_file.hpp"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

namespace tessera {
namespace {

namespace fs = std::filesystem;
using test::difference;
using test::expect_error;
using test::File;
using test::gradient;
using test::noise;
using test::with_channels;

constexpr LoadImageOptions as_file{.channels = Channels::as_file};

File text_file(std::string_view text) {
  File file;
  test::append(file, text);
  return file;
}

class Image_files : public test::InFolder {};

TEST_F(Image_files, Load_as_they_were_saved) {
  for (const int channels : {1, 3, 4}) {
    const Image image = noise(7, 5, channels);
    save_image(path("picture.png"), image);
    EXPECT_EQ(load_image(path("picture.png"), as_file), image);
    EXPECT_EQ(load_image(path("picture.png")), with_channels(image, 4));
    EXPECT_EQ(test::read_png(content("picture.png")), image);
  }
  const Image image = gradient(48, 64, 3);
  save_image(path("picture.jpg"), image, {.quality = 100});
  EXPECT_LE(difference(load_image(path("picture.jpg"), as_file), image), 4);
  EXPECT_EQ(files(), 2U);  // and nothing else
}

TEST_F(Image_files, Are_written_in_the_format_of_the_extension) {
  const Image image = gradient(8, 8, 4);
  for (const char* name : {"a.png", "b.PNG", "c.Png", "two.dots.png"}) {
    save_image(path(name), image);
    EXPECT_EQ(test::read_png(content(name)), image) << name;
  }
  for (const char* name : {"a.jpg", "b.JPG", "c.jpeg", "d.JPEG"}) {
    save_image(path(name), image);
    EXPECT_EQ(test::read_jpeg(content(name)).shape(), (Shape{8, 8, 3})) << name;
  }
}

TEST_F(Image_files, Are_read_in_the_format_of_their_content) {
  save_image(path("png.png"), noise(7, 5, 4));
  save_image(path("jpeg.jpg"), gradient(7, 5, 3));
  fs::copy(path("png.png"), path("png.jpg"));
  fs::copy(path("jpeg.jpg"), path("jpeg.png"));
  fs::copy(path("png.png"), path("nothing"));
  EXPECT_EQ(load_image(path("png.jpg")), load_image(path("png.png")));
  EXPECT_EQ(load_image(path("nothing")), load_image(path("png.png")));
  EXPECT_EQ(load_image(path("jpeg.png")), load_image(path("jpeg.jpg")));
}

TEST_F(Image_files, Are_written_from_buffers) {
  const Device device = Device::best();
  for (const int channels : {1, 3, 4}) {
    const Image image = noise(7, 5, channels);
    save_image(path("picture.png"), device.buffer(image));
    EXPECT_EQ(load_image(path("picture.png"), as_file), image);
  }
  const Image gray = noise(7, 5, 1);
  save_image(path("gray.png"), device.buffer(gray).reshape({7, 5, 1}));
  EXPECT_EQ(load_image(path("gray.png"), as_file), gray);
}

TEST_F(Image_files, Of_a_buffer_wait_for_earlier_commands) {
  const Device device = Device::best();
  const Buffer buffer = device.zeros({480, 640, 4}, u8);
  for (int value = 1; value <= 20; ++value) device.submit("fill", {}, buffer, {{"value", value}});
  save_image(path("filled.png"), buffer);
  EXPECT_EQ(load_image(path("filled.png")), Image(buffer.shape(), std::vector<std::uint8_t>(480 * 640 * 4, 20)));
}

TEST_F(Image_files, Are_not_written_from_a_poisoned_buffer) {
  const Device device = Device::simulated({.workers = 0, .faults = {{.command = 1}}});
  const Buffer buffer = device.zeros({4, 4}, u8);
  device.submit("fill", {}, buffer, {{"value", 1}});
  const std::string name = path("poisoned.png").string();
  expect_error(Errc::device_failure,
               "[save_image] " + name + ": the buffer cannot be read; caused by: ", [&] { save_image(name, buffer); });
  expect_error(Errc::device_failure, "[fill] command 1 failed", [&] { save_image(name, buffer); });
  EXPECT_EQ(files(), 0U);
}

TEST_F(Image_files, Are_not_written_from_buffers_that_are_not_images) {
  const Device device = Device::best();
  const std::string name = path("picture.png").string();
  const auto expect_refused = [&](Errc code, const std::string& words, const Buffer& buffer) {
    expect_error(code, words, [&] { save_image(name, buffer); });
    expect_error(code, "[save_image] " + name + ": ", [&] { save_image(name, buffer); });
  };
  expect_refused(Errc::dtype_mismatch, "must be u8, got f32[4,4]", device.zeros({4, 4}));
  for (const Shape& shape : {Shape{}, Shape{4}, Shape{4, 4, 2}, Shape{4, 4, 5}, Shape{1, 4, 4, 3}}) {
    expect_refused(Errc::shape_mismatch, "got u8" + to_string(shape), device.zeros(shape, u8));
  }
  expect_refused(Errc::invalid_argument, "empty handle", Buffer());
  expect_refused(Errc::invalid_argument, "the image has no pixels: [0,4]", device.zeros({0, 4}, u8));
  Buffer freed = device.zeros({4, 4}, u8);
  freed.free();
  expect_refused(Errc::buffer_freed, "freed", freed);
  EXPECT_EQ(files(), 0U);
}

TEST_F(Image_files, Need_a_known_extension) {
  const Image image = noise(2, 2, 3);
  expect_error(Errc::invalid_argument, "picture: the name must end in .png, .jpg or .jpeg",
               [&] { save_image(path("picture"), image); });
  expect_error(Errc::invalid_argument, "must end in", [&] { save_image(path(".png"), image); });
  expect_error(Errc::invalid_argument, "must end in", [&] { save_image("", image); });
  expect_error(Errc::invalid_argument, "unknown extension '.bmp', not .png, .jpg or .jpeg",
               [&] { save_image(path("picture.bmp"), image); });
  expect_error(Errc::invalid_argument, "unknown extension", [&] { save_image(path("picture.png."), image); });
  EXPECT_EQ(files(), 0U);
}

TEST_F(Image_files, Cannot_be_saved_where_there_is_no_folder) {
  const Image image = noise(2, 2, 3);
  expect_error(Errc::io_error, "[save_image] " + path("no/picture.png").string() + ": No such file or directory",
               [&] { save_image(path("no/picture.png"), image); });
  write("file", text_file("x"));
  expect_error(Errc::io_error, "Not a directory", [&] { save_image(path("file/picture.png"), image); });
  fs::create_directory(path("folder.png"));
  expect_error(Errc::io_error, "it is a directory", [&] { save_image(path("folder.png"), image); });
  ASSERT_EQ(mkfifo(path("pipe.png").c_str(), 0600), 0);
  expect_error(Errc::io_error, "it is not a regular file", [&] { save_image(path("pipe.png"), image); });
  EXPECT_EQ(files(), 3U);
}

TEST_F(Image_files, With_long_names_are_saved) {
  const std::string name = std::string(251, 'x') + ".png";  // the longest possible name
  save_image(path(name), noise(2, 2, 3));
  EXPECT_EQ(load_image(path(name)).width(), 2);
  expect_error(Errc::io_error, "File name too long", [&] { save_image(path("x" + name), noise(2, 2, 3)); });
}

// Limits the size of files that this process writes, during its lifetime.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{.rlim_cur = bytes, .rlim_max = before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  void (*handler_)(int);
  rlimit before_{};
};

TEST_F(Image_files, A_save_that_fails_leaves_the_file_as_it_was) {
  const Image image = noise(7, 5, 4);
  save_image(path("picture.png"), image);
  expect_error(Errc::invalid_argument, "no pixels", [&] { save_image(path("picture.png"), Image()); });
  {
    const FileSizeLimit limit(1000);
    expect_error(Errc::io_error, "picture.png: File too large",
                 [&] { save_image(path("picture.png"), noise(99, 99, 4)); });
  }
  EXPECT_EQ(load_image(path("picture.png")), image);
  EXPECT_EQ(files(), 1U);
}

TEST_F(Image_files, That_may_not_be_written_are_not_replaced) {
  if (geteuid() == 0) GTEST_SKIP() << "root may write everything";
  const Image image = noise(7, 5, 4);
  save_image(path("picture.png"), image);
  fs::permissions(path("picture.png"), fs::perms::owner_read);
  expect_error(Errc::io_error, "Permission denied", [&] { save_image(path("picture.png"), noise(1, 1, 1)); });
  EXPECT_EQ(load_image(path("picture.png")), image);
}

TEST_F(Image_files, A_save_keeps_links_and_permissions) {
  save_image(path("picture.png"), noise(7, 5, 4));
  fs::permissions(path("picture.png"), fs::perms::owner_read | fs::perms::owner_write);
  fs::create_symlink("picture.png", path("link.png"));
  const Image other = noise(5, 7, 4);
  save_image(path("link.png"), other);
  EXPECT_TRUE(fs::is_symlink(path("link.png")));
  EXPECT_EQ(load_image(path("picture.png")), other);
  EXPECT_EQ(fs::status(path("picture.png")).permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

TEST_F(Image_files, Are_saved_in_the_current_folder_too) {
  const fs::path before = fs::current_path();
  fs::current_path(path(""));
  save_image("here.png", noise(2, 2, 1));
  EXPECT_EQ(load_image("here.png").width(), 2);
  fs::current_path(before);
  EXPECT_EQ(files(), 1U);
}

TEST_F(Image_files, That_cannot_be_read_are_named_with_the_reason) {
  const auto expect_bad = [&](const std::string& name, const std::string& reason) {
    expect_error(Errc::io_error, "[load_image] " + path(name).string() + ": " + reason,
                 [&] { load_image(path(name)); });
  };
  expect_bad("missing.png", "No such file or directory");
  expect_bad("no/missing.png", "No such file or directory");
  expect_error(Errc::io_error, "[load_image] : No such file or directory", [] { load_image(""); });
  fs::create_directory(path("folder.png"));
  expect_bad("folder.png", "it is a directory");
  ASSERT_EQ(mkfifo(path("pipe.png").c_str(), 0600), 0);
  expect_bad("pipe.png", "it is not a regular file");
  write("empty.png", {});
  expect_bad("empty.png", "it is empty");
  write("text.png", text_file("not a picture at all"));
  expect_bad("text.png", "it is neither PNG nor JPEG");
  write("short.png", text_file("\x89"));
  expect_bad("short.png", "it is neither PNG nor JPEG");
  write("animation.png", text_file("GIF89a, and so on"));
  expect_bad("animation.png", "it is GIF; only PNG and JPEG are supported");
  write("web.jpg", text_file("RIFF1234WEBPVP8 "));
  expect_bad("web.jpg", "it is WebP; only PNG and JPEG are supported");
  write("start.png", text_file("\x89PNG\r\n\x1a\n"));
  expect_bad("start.png", "cannot decode the PNG: the file is truncated");
  write("start.jpg", text_file("\xff\xd8\xff"));
  expect_bad("start.jpg", "cannot decode the JPEG: Premature end");
  fs::create_symlink("around.png", path("around.png"));
  expect_bad("around.png", "Too many levels of symbolic links");
  if (geteuid() != 0) {  // root may read everything
    write("secret.png", text_file("x"));
    fs::permissions(path("secret.png"), fs::perms::none);
    expect_bad("secret.png", "Permission denied");
  }
}

TEST_F(Image_files, That_are_absurdly_large_are_not_read) {
  write("large.png", text_file("\x89PNG\r\n\x1a\n"));
  fs::resize_file(path("large.png"), std::uintmax_t{1} << 40);  // a sparse file
  expect_error(Errc::io_error, "it has 1099511627776 bytes", [&] { load_image(path("large.png")); });
}

TEST(Images_in_memory, Are_refused_with_a_reason) {
  expect_error(Errc::io_error, "[decode_image] it is empty", [] { decode_image(File()); });
  expect_error(Errc::io_error, "[decode_image] it is neither PNG nor JPEG", [] { decode_image(std::string("text")); });
  expect_error(Errc::invalid_argument, "[encode_image] the image has no pixels: [0,0]",
               [] { encode_image(Image(), ImageFormat::png); });
  expect_error(Errc::invalid_argument, "no Channels with the number 9",
               [] { decode_image(File(), {.channels = static_cast<Channels>(9)}); });
}

}  // namespace
}  // namespace tessera
