"""Runs a recipe; leaves WORK/package, and in WORK/generators the vit-config.cmake that CMakeDeps
would write of package_info()."""
import importlib.util
import os
import re
import sys


def conandata(path):
    """The sources of each version: as much of YAML as config files of recipes have."""
    sources, version = {}, None
    with open(path) as file:
        assert file.readline() == "sources:\n"
        for line in file:
            key, value = re.fullmatch(r' +("[^"]*"|\w+):(?: "([^"]*)")?\n', line).groups()
            if value is None:
                version = sources.setdefault(key.strip('"'), {})
            else:
                version[key] = value
    return {"sources": sources}


def main(folder, archives, work, shared):
    spec = importlib.util.spec_from_file_location("recipe", os.path.join(folder, "conanfile.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    recipe = module.VitConan(work)
    recipe.archives = archives
    recipe.conan_data = conandata(os.path.join(folder, "conandata.yml"))
    recipe.version, = recipe.conan_data["sources"]
    recipe.options["shared"] = shared == "True"
    recipe.layout()
    recipe.source()
    recipe.generate()
    recipe.build()
    recipe.package()
    recipe.package_info()
    info = recipe.cpp_info
    target = info.properties["cmake_target_name"]
    os.makedirs(os.path.join(work, "generators"))
    config = info.properties["cmake_file_name"] + "-config.cmake"
    with open(os.path.join(work, "generators", config), "w") as file:
        file.write("add_library(%s INTERFACE IMPORTED)\n" % target)
        file.write("target_include_directories(%s INTERFACE %s/include)\n"
                   % (target, recipe.package_folder))
        file.write("target_link_directories(%s INTERFACE %s/lib)\n"
                   % (target, recipe.package_folder))
        file.write("target_link_libraries(%s INTERFACE %s)\n"
                   % (target, " ".join(info.libs + info.system_libs)))


main(*sys.argv[1:])
