"""What scores say, in plain words with the numbers, short enough for a Slurm reason."""

from guardctl.words.records import Score

CAUSES = {
    "thermal_share": "thermal throttle",
    "power_brake_share": "power brake",
    "hw_slowdown_share": "hardware slowdown",
    "throttled_share": "processor throttled",
    "sm_clock_mhz": "low GPU clock",
    "retransmits_per_s": "link retransmits",
    "queue_drops_per_s": "link drops",
    "busy_s": "slow steps, no cause seen",
}  # the first that spoke is the cause: a reason before its effect
SHARES = {
    "thermal_share": "thermal throttle in",
    "power_brake_share": "power brake in",
    "hw_slowdown_share": "hardware slowdown in",
}


def cause(signals: frozenset[str]) -> str:
    """The most telling name for what is wrong."""
    if {"retransmits_per_s", "queue_drops_per_s"} <= signals and not signals & {"throttled_share", "thermal_share"}:
        return "link drops and retransmits"
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
    if score.signal == "sm_clock_mhz":
        return f"clock {value:.0f} MHz, peers {peers:.0f}"
    if score.signal == "temperature_c":
        return f"{value:.0f} C, peers {peers:.0f}"
    name = {"retransmits_per_s": "retransmits", "queue_drops_per_s": "drops"}.get(score.signal, score.signal)
    return f"{value:.1f} {name} {score.unit}, peers {peers:.1f}".replace("  ", " ")
