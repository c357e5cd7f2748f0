"""NVML's reasons for a clock below the requested one, as bits. Source: nvml.h, nvmlClocksEventReason*."""

IDLE = 0x01
SW_POWER_CAP = 0x04
HW_SLOWDOWN = 0x08  # set beside the thermal and brake bits by newer drivers, alone by old ones
THERMAL = 0x20 | 0x40  # software and hardware thermal slowdown
POWER_BRAKE = 0x80  # the power supply or the rack asked for less
