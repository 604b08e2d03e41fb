// Pictures: draws one, saves it, loads it again, blurs it, and saves the result as PNG and JPEG.
// Usage: image [folder]   (default: tessera-image in the folder for temporary files)
// Expect: .480,640,4. u8, as drawn.*blurred.png, [0-9]+ bytes.*blurred.jpg, [0-9]+ bytes.*io_error: .load_image.
#include <tessera/tessera.hpp>

#include <filesystem>
#include <iostream>

int main(int argc, char** argv) {
  const std::filesystem::path folder = argc > 1 ? argv[1] : std::filesystem::temp_directory_path() / "tessera-image";
  create_directories(folder);
  tessera::Device device = tessera::Device::best();

  // Save and load: PNG is lossless.
  tessera::Buffer drawn = device.empty({480, 640, 4}, tessera::u8);
  device.submit("generate_gradient", {}, drawn, {{"phase", 0.25}});
  save_image(folder / "gradient.png", drawn);  // waits for commands that write the buffer
  tessera::Image picture = tessera::load_image(folder / "gradient.png");
  const bool is_same = picture == tessera::Image(drawn.shape(), drawn.read<std::uint8_t>());
  std::cout << to_string(picture.shape()) << " u8, " << (is_same ? "as drawn" : "not as drawn") << '\n';

  // A black cross, by hand.
  for (int i = 100; i < 380; ++i) {
    for (int channel = 0; channel < 3; ++channel) {
      picture.at(i, i + 80)[channel] = 0;
      picture.at(i, 559 - i)[channel] = 0;
    }
  }

  tessera::Buffer blurred = device.empty(picture.shape(), tessera::u8);
  device.submit("gaussian_blur", {device.buffer(picture)}, blurred, {{"radius", 3}, {"sigma", 1.5}});
  for (const char* name : {"blurred.png", "blurred.jpg"}) {
    save_image(folder / name, blurred);
    std::cout << (folder / name).string() << ", " << file_size(folder / name) << " bytes\n";
  }

  try {
    tessera::load_image(folder / "no-picture.png");
  } catch (const tessera::Error& error) {
    std::cout << to_string(error.code()) << ": " << error.what() << '\n';
  }
}
