// Prints the functions of the Python files named on stdin, one file a line: "begin:end" bytes of each, or
// "refused".
#include <comera/base/file.h>
#include <comera/data/python_functions.h>

#include <iostream>

int main() {
  for (std::string path; std::getline(std::cin, path);) {
    const std::string source = comera::read_file(path);
    const auto functions = comera::data::find_python_functions(source);
    if (!functions)
      std::cout << "refused";
    else
      for (const auto& function : *functions) std::cout << function.begin << ':' << function.end << ' ';
    std::cout << '\n';
  }
}
