"""What scores say, in plain words with the numbers, short enough for a Slurm reason."""

from guardctl.words.records import Score

CAUSES = {
    "thermal_share": "thermal throttle",
    "power_brake_share": "power brake",
    "hw_slowdown_share": "hardware slowdown",
    "throttled_share": "processor throttled",
    "sm_clock_mhz": "low GPU clock",
    "queue_delays_per_s": "slow link",
    "queue_drops_per_s": "link drops",
    "tcp_rtt_ms": "slow connections",
    "retransmits_per_s": "TCP retransmits",
    "busy_s": "slow steps, no cause seen",
}  # the first that spoke is the cause: a reason before its effect
SHARES = {
    "thermal_share": "thermal throttle in",
    "power_brake_share": "power brake in",
    "hw_slowdown_share": "hardware slowdown in",
}


GAUGES = {
    "sm_clock_mhz": ("clock ", 0, " MHz"),
    "temperature_c": ("", 0, " C"),
    "tcp_rtt_ms": ("round trip ", 1, " ms"),
}
COUNTED = {
    "retransmits_per_s": "TCP retransmits",
    "queue_drops_per_s": "drops in its queue",
    "queue_delays_per_s": "packets held in its queue",
}


def cause(signals: frozenset[str]) -> str:
    """The most telling name for what is wrong."""
    return next((words for signal, words in CAUSES.items() if signal in signals), "unknown")


def evidence(score: Score) -> str:
    """One score as a phrase: `busy time 48% longer than 5 peers`."""
    place = f"GPU {score.gpu} " if score.gpu is not None else ""
    return place + _phrase(score)


def _phrase(score: Score) -> str:
    value, peers = score.value or 0.0, score.peers or 0.0
    if score.signal == "busy_s":
        more = (1 / score.relative - 1) * 100 if score.relative else 0.0
        return f"busy time {more:.0f}% longer than {score.num_peers} peers"
    if score.signal == "throttled_share":
        return f"throttled {value * 100:.0f}% of the time, peers {peers * 100:.0f}%"
    if score.signal in SHARES:
        return f"{SHARES[score.signal]} {value * 100:.0f}% of samples, peers {peers * 100:.0f}%"
    before, digits, after = GAUGES.get(score.signal, ("", 1, f" {COUNTED.get(score.signal, score.signal)} per s"))
    return f"{before}{value:.{digits}f}{after}, peers {peers:.{digits}f}"
