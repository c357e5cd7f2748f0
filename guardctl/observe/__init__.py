"""What there is to see on a node: devices, counters, the kernel log, and what training programs write.

Comes in: the driver (NVML), /proc, sysfs, cgroups, the kernel log, files that jobs leave. Goes out: `Reading`s, and
tables of them and of training steps for guardctl.judge. One module per source, a pure `parse_*` beside each read; the
agent samples all of them on its node and appends them to a spool on the shared file system, which the monitor reads.
Nothing here judges, and nothing here speaks to Slurm.

Signals by source (a name in `Reading.values`, a column of `spool.read`). None: the device did not say. Counters run up
from the start of the device or the node; rates are made by the reader.

    gpu   lost, hang (bool), why (text); name, board (part number), pci_bus_id, pci (as in the kernel log: 0000:18:00),
          temperature_c, temperature_margin_c, power_w, power_limit_w, sm_clock_mhz, mem_clock_mhz, max_sm_clock_mhz,
          event_reasons (bit mask), event_reason_names (joined by ","), utilization_percent,
          ecc_{corrected,uncorrected}_{volatile,aggregate}, remapped_correctable, remapped_uncorrectable,
          remapped_pending, remapped_failed (bool), retired_pages_pending (bool), pcie_gen, max_pcie_gen, pcie_width,
          max_pcie_width, pcie_replays, nvlinks_up, nvlink_errors, memory_used_bytes, memory_total_bytes, mig (bool),
          num_processes, recovery_action (0: none; NVML's number)
    net   tcp_out_segments, tcp_in_segments, tcp_retransmits, tcp_timeouts, tcp_lost_retransmits, tcp_rtt_ms (mean of
          busy connections), rx_bytes, tx_bytes, rx_errors, tx_errors, rx_drops, tx_drops, qdisc_drops,
          qdisc_overlimits, qdisc_requeues, qdisc_backlog_bytes, carrier_changes, speed_mbps
    ib    state, phys_state, rate_gbps, link_layer, and the counters of sysfs by their own names (link_downed,
          symbol_error, port_rcv_errors, ...)
    host  num_gpus, expected_gpus, nvml_hang (bool), nvml_why (text), load1, mem_available_bytes, mem_total_bytes,
          uptime_s, log_why (text); of the cgroup: periods, throttled_periods, throttled_s, usage_s; of a hook's note
          (device "hook"): hook, job_id, uid, refused (bool), why
    log   event (xid, sxid, fell_off_bus, init_failed), xid, sxid, pci, fatal (bool), text, sequence, gpu (index), pid,
          process
"""
