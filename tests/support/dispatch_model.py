"""What dispatching should do, in plain lists: messages, deliveries, sayings, and their fates."""

from dataclasses import dataclass, field

from onceward.dispatch.models import DeliveryState, OutboxState

#: How often a delivery or a saying is tried.
ATTEMPTS_MAX = 3
#: A message in one of these was dealt with, or waits for a person.
FINAL = (DeliveryState.DONE, DeliveryState.KEPT, DeliveryState.DEAD, DeliveryState.DROPPED)
#: Nothing that was said in one of these may ever be seen.
UNDONE = (
    DeliveryState.ROLLED_BACK,
    DeliveryState.DEAD,
    DeliveryState.REDRIVEN,
    DeliveryState.DROPPED,
)
#: People see it, or may have.
SEEN = (OutboxState.SENDING, OutboxState.SENT, OutboxState.MAYBE_SENT)
OPEN = (OutboxState.PENDING, OutboxState.SENDING)


@dataclass
class Said:
    """A message."""

    id: str
    seq: int
    text: str


@dataclass
class Record:
    """A delivery, running or over."""

    number: int
    attempt: int
    first: int
    last: int
    state: DeliveryState = DeliveryState.RUNNING
    #: Where the group stood before.
    previous: int = 0
    #: How far output went out.
    output: int | None = None
    #: A replay undoes what lies after this.
    counts_upto: int | None = None

    def covers(self, seq: int) -> bool:
        upto = self.last if self.counts_upto is None else min(self.last, self.counts_upto)
        return self.first <= seq <= upto

    @property
    def row(self) -> tuple[int, DeliveryState, int, int, int]:
        return self.number, self.state, self.attempt, self.first, self.last


@dataclass
class Word:
    """A saying."""

    key: str
    text: str
    number: int
    position: int
    state: OutboxState
    attempts: int = 0
    #: Whether a try may have been seen, whatever the next ones were answered.
    may_be_sent: bool = False

    @property
    def row(self) -> tuple[str, int, int, str]:
        return self.key, self.number, self.position, str(self.state)


@dataclass
class GroupModel:
    """A group, and everything that happened in it."""

    name: str
    is_stored: bool
    takes_keys: bool
    word: str = ""
    messages: list[Said] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)
    words: list[Word] = field(default_factory=list)
    called: int = 0
    processed: int = 0
    numbers: int = 0
    attempts: int = 0
    #: Every text that was kept, in the order of saying, and the delivery that it is about.
    log: list[tuple[str, int | None]] = field(default_factory=list)
    #: Texts that were taken back.
    cancelled: set[str] = field(default_factory=set)

    # --- looking --------------------------------------------------------------------------------

    @property
    def flight(self) -> Record | None:
        running = [each for each in self.records if each.state is DeliveryState.RUNNING]
        assert len(running) <= 1
        return running[0] if running else None

    def between(self, after: int, upto: int) -> list[Said]:
        found = [each for each in self.messages if after < each.seq <= upto]
        return sorted(found, key=lambda each: each.seq)

    def waiting(self, read: int) -> list[Said]:
        # Where a word calls, nothing is handed out before the call was read.
        is_called = self.processed < self.called and (not self.word or self.called <= read)
        return self.between(self.processed, read) if is_called else []

    def head(self) -> Word | None:
        """Return the saying that is sent next."""
        return next((each for each in self.words if each.state in OPEN), None)

    # --- people ---------------------------------------------------------------------------------

    def heard(self, id_: str, text: str, seq: int) -> None:
        known = next((each for each in self.messages if each.id == id_), None)
        if known is None:
            self.messages.append(Said(id_, seq, text))
        else:
            known.text = text
        if text.startswith(self.word):
            self.called = max(self.called, seq)

    # --- deliveries -----------------------------------------------------------------------------

    def begin(self, messages: list[Said], attempt: int | None = None) -> Record:
        self.numbers += 1
        made = Record(
            self.numbers,
            self.attempts + 1 if attempt is None else attempt,
            messages[0].seq,
            messages[-1].seq,
            previous=self.processed,
        )
        self.records.append(made)
        self.processed = made.last
        return made

    def extend(self, flight: Record, upto: int) -> None:
        flight.last = self.processed = upto

    def done(self, flight: Record, upto: int) -> Record | None:
        reached = flight.last
        finished = max(flight.previous, min(upto, reached))
        flight.state, flight.last, self.processed, self.attempts = (
            *(DeliveryState.DONE, finished),
            *(finished, 0),
        )
        left = self.between(finished, reached)
        if not left:
            return None
        rest = self.begin(left, 1)
        rest.last = self.processed = reached
        return rest

    def back(self, flight: Record) -> DeliveryState:
        """End without success: kept as far as output went, else all of it comes again."""
        is_kept = flight.output is not None and flight.output > flight.previous
        self.processed = flight.previous if flight.output is None else flight.output
        for each in self.words:
            is_said = each.number == flight.number and each.position > self.processed
            if is_said and each.state is OutboxState.PENDING:
                each.state = OutboxState.CANCELLED
                self.cancelled.add(each.text)
        flight.state = DeliveryState.KEPT if is_kept else DeliveryState.ROLLED_BACK
        if is_kept:
            flight.last, self.attempts = self.processed, 0
        return flight.state

    def failed(self, flight: Record, *, is_final: bool) -> DeliveryState:
        is_last = is_final or flight.attempt >= ATTEMPTS_MAX
        if self.back(flight) is DeliveryState.KEPT:
            return flight.state
        self.attempts = flight.attempt
        if is_last:
            self.numbers += 1
            flight.state, self.processed, self.attempts = DeliveryState.DEAD, flight.last, 0
        return flight.state

    def redriven(self, record: Record, numbers: list[int]) -> None:
        messages = self.between(record.first - 1, record.last)
        for each, seq in zip(messages, numbers, strict=True):
            each.seq = seq
            self.called = max(self.called, seq)
        record.state = DeliveryState.REDRIVEN

    def replayed(self, position: int) -> None:
        self.processed = position
        for each in self.records:
            if each.state is DeliveryState.DEAD and each.first > position:
                each.state = DeliveryState.REDRIVEN  # All of it comes again.
            elif each.state is DeliveryState.DEAD:
                each.last = min(each.last, position)
            before = position if each.counts_upto is None else each.counts_upto
            each.counts_upto = min(before, position) if each.last > position else each.counts_upto

    # --- sayings --------------------------------------------------------------------------------

    def say(self, record: Record, key: str, text: str, upto: int | None, *, is_over: bool) -> bool:
        """Return whether it is new."""
        known = next((each for each in self.words if each.key == key), None)
        if known is not None and known.state is not OutboxState.CANCELLED:
            return False
        if known is not None:
            self.words.remove(known)
        reached = record.last if upto is None else max(record.previous, min(upto, record.last))
        state = OutboxState.SENT if self.is_stored else OutboxState.PENDING
        self.words.append(Word(key, text, record.number, reached, state))
        self.log.append((text, record.number if reached > record.previous else None))
        if self.is_stored and not is_over:
            record.output = max(record.output or 0, reached)
        return True

    def sending(self, word: Word) -> None:
        word.may_be_sent |= word.state is OutboxState.SENDING
        word.state = OutboxState.SENDING
        word.attempts += 1
        flight = self.flight
        if flight is not None and flight.number == word.number:
            flight.output = max(flight.output or 0, word.position)

    def tried(self, word: Word, how: str) -> None:
        """Note how the channel took it."""
        word.may_be_sent |= how == "unknown"
        is_last = how == "refused" or word.attempts >= ATTEMPTS_MAX
        if how == "sent":
            word.state = OutboxState.SENT
        elif (how == "unknown" and not self.takes_keys) or (is_last and word.may_be_sent):
            word.state = OutboxState.MAYBE_SENT
        elif not word.may_be_sent:
            word.state = OutboxState.FAILED if is_last else OutboxState.PENDING
            self.take_back(word)

    def take_back(self, word: Word) -> None:
        """Forget that something was seen, for it was not."""
        flight = self.flight
        if flight is not None and flight.number == word.number:
            places = [
                each.position
                for each in self.words
                if each.number == word.number and each.state in SEEN
            ]
            flight.output = max(places) if places else None

    def restarted(self) -> None:
        """Let the dispatcher die, and another begin."""
        if self.flight is not None:
            self.back(self.flight)
        head = self.head()
        if head is not None and head.state is OutboxState.SENDING and not self.takes_keys:
            head.state = OutboxState.MAYBE_SENT

    # --- the promise ----------------------------------------------------------------------------

    def check(self, shown: list[str]) -> None:
        """Nothing is gone, nothing is answered twice, nothing taken back was seen."""
        for message in self.messages:
            found = [
                each.state
                for each in self.records
                if each.state in FINAL and each.covers(message.seq)
            ]
            is_context = message.seq > self.processed and self.called <= self.processed
            assert len(found) == (0 if is_context else 1), (message, found, self)
        for record in self.records:
            if record.state is DeliveryState.KEPT:
                assert any(each.number == record.number for each in self.words), record
        assert len(shown) == len(set(shown)), shown
        undone = {each.number for each in self.records if each.state in UNDONE}
        taken_back = {text for text, number in self.log if number in undone} | self.cancelled
        assert not taken_back & set(shown), taken_back & set(shown)
        order = [text for text, _ in self.log]
        assert [order.index(text) for text in shown] == sorted(map(order.index, shown)), shown
