/*
 * Lets Chromium run WebGPU on Mesa's lavapipe, so that tests reach shader-f16 and wider subgroups
 * without a GPU. For tests only: a library to preload into the browser.
 *
 *     gcc -O2 -fPIC -shared -o liblvp_shim.so lvp_shim.c -ldl
 *     LD_PRELOAD=$PWD/liblvp_shim.so XDG_RUNTIME_DIR=/tmp chromium --enable-unsafe-webgpu ...
 *
 * Two things stand between Chromium and lavapipe, and each is bent here:
 *
 * - A software adapter is taken only if it is SwiftShader, which is opened by its path. The open
 *   gets this library instead, an ICD that passes every call on to lavapipe and answers with
 *   SwiftShader's ids. ANGLE and the Vulkan loader keep the real SwiftShader.
 * - Dawn asks for two features of image arrays that older lavapipe lacks. They are reported, and
 *   removed again from the device that is made: compute shaders never use them.
 *
 * The adapter then calls itself SwiftShader: tell it by its features. LVP_SHIM_DRIVER names
 * lavapipe's library where the dynamic linker does not find it.
 *
 * The few Vulkan types used are declared here after the specification, so no headers are needed.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

enum {
    VK_ERROR_INITIALIZATION_FAILED = -3,
    VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2 = 1000059000,
    VK_PHYSICAL_DEVICE_TYPE_CPU = 4,
};

enum { SWIFTSHADER_VENDOR = 0x1AE0, SWIFTSHADER_DEVICE = 0xC0DE };

typedef void *Handle; /* VkInstance, VkPhysicalDevice, VkDevice */
typedef void (*Function)(void);

typedef struct {
    uint32_t flags[55];
} Features; /* VkPhysicalDeviceFeatures: 55 VkBool32 */

enum { SAMPLED_IMAGE_ARRAY_DYNAMIC_INDEXING = 34, STORAGE_IMAGE_ARRAY_DYNAMIC_INDEXING = 36 };

typedef struct Chained {
    uint32_t type;
    struct Chained *next;
} Chained; /* VkBaseOutStructure */

typedef struct {
    Chained base;
    Features features;
} Features2; /* VkPhysicalDeviceFeatures2 */

typedef struct {
    uint32_t api_version, driver_version, vendor_id, device_id, device_type;
} Properties; /* the beginning of VkPhysicalDeviceProperties */

typedef struct {
    Chained base;
    Properties properties;
} Properties2; /* the beginning of VkPhysicalDeviceProperties2 */

typedef struct {
    Chained base;
    uint32_t flags, queue_count;
    const void *queues;
    uint32_t layer_count;
    const char *const *layers;
    uint32_t extension_count;
    const char *const *extensions;
    const Features *features;
} DeviceCreateInfo; /* VkDeviceCreateInfo */

_Static_assert(sizeof(Features) == 220, "VkPhysicalDeviceFeatures has 55 members of 4 bytes");
_Static_assert(sizeof(void *) != 8 || sizeof(DeviceCreateInfo) == 72, "VkDeviceCreateInfo, 64 bit");

/* What lavapipe exports, and those of its functions that this library stands in front of. */
static struct {
    Function (*instance_proc)(Handle, const char *);
    Function (*physical_device_proc)(Handle, const char *);
    int32_t (*negotiate)(uint32_t *);
    void (*features)(Handle, Features *);
    void (*features2)(Handle, Features2 *);
    void (*properties)(Handle, Properties *);
    void (*properties2)(Handle, Properties2 *);
    int32_t (*create_device)(Handle, const DeviceCreateInfo *, const void *, Handle *);
} real;

/* Copies the address `from` into the function pointer at `to`, which C's casts may not. */
static void assign(void *to, const void *from) { memcpy(to, &from, sizeof from); }

static int load_driver(void) {
    static int tried;
    if (!tried) {
        tried = 1;
        const char *path = getenv("LVP_SHIM_DRIVER");
        void *driver = dlopen(path ? path : "libvulkan_lvp.so", RTLD_NOW | RTLD_LOCAL);
        if (!driver) {
            fprintf(stderr, "lvp_shim: no lavapipe: %s\n", dlerror());
            return 0;
        }
        assign(&real.instance_proc, dlsym(driver, "vk_icdGetInstanceProcAddr"));
        assign(&real.physical_device_proc, dlsym(driver, "vk_icdGetPhysicalDeviceProcAddr"));
        assign(&real.negotiate, dlsym(driver, "vk_icdNegotiateLoaderICDInterfaceVersion"));
    }
    return real.instance_proc != NULL;
}

static void set_image_indexing(Features *features, uint32_t value) {
    features->flags[SAMPLED_IMAGE_ARRAY_DYNAMIC_INDEXING] = value;
    features->flags[STORAGE_IMAGE_ARRAY_DYNAMIC_INDEXING] = value;
}

static void pose_as_swiftshader(Properties *properties) {
    properties->vendor_id = SWIFTSHADER_VENDOR;
    properties->device_id = SWIFTSHADER_DEVICE;
    properties->device_type = VK_PHYSICAL_DEVICE_TYPE_CPU;
}

static void get_features(Handle device, Features *features) {
    real.features(device, features);
    set_image_indexing(features, 1);
}

static void get_features2(Handle device, Features2 *features) {
    real.features2(device, features);
    set_image_indexing(&features->features, 1);
}

static void get_properties(Handle device, Properties *properties) {
    real.properties(device, properties);
    pose_as_swiftshader(properties);
}

static void get_properties2(Handle device, Properties2 *properties) {
    real.properties2(device, properties);
    pose_as_swiftshader(&properties->properties);
}

static int32_t create_device(Handle physical, const DeviceCreateInfo *info, const void *allocator,
                             Handle *device) {
    DeviceCreateInfo without = *info;
    Features features;
    if (info->features) {
        features = *info->features;
        set_image_indexing(&features, 0);
        without.features = &features;
    }
    Chained *link = info->base.next;
    while (link && link->type != VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2) link = link->next;
    Features2 *chained = (Features2 *)link;
    Features asked;
    if (chained) {
        asked = chained->features;
        set_image_indexing(&chained->features, 0);
    }
    int32_t result = real.create_device(physical, &without, allocator, device);
    if (chained) chained->features = asked;
    return result;
}

static const struct {
    const char *name;
    void *real;
    Function ours;
} hooks[] = {
    {"vkGetPhysicalDeviceFeatures", &real.features, (Function)get_features},
    {"vkGetPhysicalDeviceFeatures2", &real.features2, (Function)get_features2},
    {"vkGetPhysicalDeviceFeatures2KHR", &real.features2, (Function)get_features2},
    {"vkGetPhysicalDeviceProperties", &real.properties, (Function)get_properties},
    {"vkGetPhysicalDeviceProperties2", &real.properties2, (Function)get_properties2},
    {"vkGetPhysicalDeviceProperties2KHR", &real.properties2, (Function)get_properties2},
    {"vkCreateDevice", &real.create_device, (Function)create_device},
};

/* Our function of that name where lavapipe has it too; NULL for names that are passed on. */
static Function hooked(Handle instance, const char *name) {
    for (size_t i = 0; i < sizeof hooks / sizeof hooks[0]; i++) {
        if (strcmp(name, hooks[i].name) != 0) continue;
        Function found = real.instance_proc(instance, name);
        if (!found) return NULL;
        memcpy(hooks[i].real, &found, sizeof found);
        return hooks[i].ours;
    }
    return NULL;
}

EXPORT Function vk_icdGetInstanceProcAddr(Handle instance, const char *name) {
    if (!load_driver()) return NULL;
    if (strcmp(name, "vk_icdGetInstanceProcAddr") == 0) return (Function)vk_icdGetInstanceProcAddr;
    Function ours = hooked(instance, name);
    return ours ? ours : real.instance_proc(instance, name);
}

EXPORT Function vk_icdGetPhysicalDeviceProcAddr(Handle instance, const char *name) {
    if (!load_driver()) return NULL;
    Function ours = hooked(instance, name);
    if (ours) return ours;
    return real.physical_device_proc ? real.physical_device_proc(instance, name) : NULL;
}

EXPORT int32_t vk_icdNegotiateLoaderICDInterfaceVersion(uint32_t *version) {
    if (!load_driver() || !real.negotiate) return VK_ERROR_INITIALIZATION_FAILED;
    return real.negotiate(version);
}

/* Dawn uses the library that it opened as a Vulkan loader. */
EXPORT Function vkGetInstanceProcAddr(Handle instance, const char *name) {
    if (strcmp(name, "vkGetInstanceProcAddr") == 0) return (Function)vkGetInstanceProcAddr;
    return vk_icdGetInstanceProcAddr(instance, name);
}

static const char *file_of(const void *address) {
    Dl_info info;
    return dladdr(address, &info) && info.dli_fname ? info.dli_fname : "";
}

static int keeps_swiftshader(const char *caller) {
    return strstr(caller, "libvulkan") || strstr(caller, "libGLESv2") || strstr(caller, "libEGL");
}

/* Stands in front of libc's: an open of SwiftShader by Dawn opens this library. */
EXPORT void *dlopen(const char *file, int flags) {
    static void *(*open_real)(const char *, int);
    if (!open_real) assign(&open_real, dlsym(RTLD_NEXT, "dlopen"));
    if (file && strstr(file, "libvk_swiftshader.so") &&
        !keeps_swiftshader(file_of(__builtin_return_address(0))))
        file = file_of(&real);
    return open_real(file, flags);
}
