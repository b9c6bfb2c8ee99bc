# Makes vit::vit, the header. Each target that links to vit::vit gets the implementation as a source
# file, in C or, in a project without C, in C++. VIT_FOLDER has vit.h and vit.hpp, VIT_SOURCES has
# vit.c and vit.cpp.
find_package(Threads REQUIRED)
get_property(_vit_languages GLOBAL PROPERTY ENABLED_LANGUAGES)
if("C" IN_LIST _vit_languages)
    set(_vit_source "${VIT_SOURCES}/vit.c")
else()
    set(_vit_source "${VIT_SOURCES}/vit.cpp")
endif()
add_library(vit::vit INTERFACE IMPORTED GLOBAL)
set_target_properties(vit::vit PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${VIT_FOLDER}"
    INTERFACE_SOURCES "${_vit_source}"
    INTERFACE_LINK_LIBRARIES Threads::Threads)
