;;; fastcoder.el --- Ghost text from a local code model, through Eglot  -*- lexical-binding: t; -*-

;; Author: The fastcoder-lsp authors
;; URL: https://github.com/OWNER/fastcoder-lsp
;; Version: 0.1.0
;; Package-Requires: ((emacs "28.1") (eglot "1.9"))
;; Keywords: convenience, languages, tools
;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; Eglot starts the server; `fastcoder-mode' asks it for inline completions while one types and shows them behind point.
;; Nothing here waits for the server: every answer comes to a callback, and one that comes too late is dropped.
;;
;;     (require 'fastcoder)
;;     (fastcoder-setup '(python-mode python-ts-mode))
;;
;; and `M-x eglot' in a file of these modes.  Without this file the same server offers its suggestions through
;; `completion-at-point'.

;;; Code:

(require 'cl-lib)
(require 'eglot)
(require 'jsonrpc)
(require 'subr-x)

(defgroup fastcoder nil
  "Ghost text from a local code model."
  :group 'tools
  :group 'convenience
  :prefix "fastcoder-")

(defcustom fastcoder-command '("fastcoder-lsp" "serve")
  "The program that Eglot starts, its arguments, and settings.
Settings come last: \"serve\" :initializationOptions (:enabled t)."
  :type '(repeat sexp))

(defcustom fastcoder-auto t
  "Whether to suggest while you type; if nil, only `fastcoder-ask' does."
  :type 'boolean)

(defcustom fastcoder-edits t
  "Whether to request next edits, if the server proposes them."
  :type 'boolean)

(defcustom fastcoder-edit-delay 0.25
  "Seconds without a key before Emacs requests the next edit."
  :type 'number)

(defcustom fastcoder-inhibit-functions '(fastcoder-not-typing-p)
  "Functions without arguments; if one returns non-nil, suggest nothing."
  :type 'hook)

;; Not `shadow': on dark terminals it is nearly the colour of code, with few colours that of comments or types.
(defface fastcoder-ghost
  '((((class color grayscale) (min-colors 88)) :foreground "grey54" :slant italic)
    (t :slant italic :underline t))
  "Ghost text.")

(defface fastcoder-count
  '((((class color grayscale) (min-colors 88)) :inherit shadow)
    (t :inverse-video t))
  "Number of the shown suggestion among several.")

(defface fastcoder-replaced
  '((((supports :strike-through t)) :inherit shadow :strike-through t)
    (t :inverse-video t))
  "Text that accepting the suggestion replaces.")

(defface fastcoder-inserted
  '((((class color) (min-colors 88) (background light)) :background "#c8efc8")
    (((class color) (min-colors 88) (background dark)) :background "#20482a")
    (((class color) (min-colors 8)) :foreground "green" :underline t)
    (t :underline t))
  "Text that the next edit inserts.")

(defface fastcoder-deleted
  '((((class color) (min-colors 88) (background light)) :background "#ffd8d8" :strike-through t)
    (((class color) (min-colors 88) (background dark)) :background "#5a2628" :strike-through t)
    (((class color) (min-colors 8)) :foreground "red" :strike-through t)
    (t :inverse-video t))
  "Text that the next edit deletes.")

;;;; The server

(defclass fastcoder-server (eglot-lsp-server)
  ((status :initform '(:state "starting") :accessor fastcoder--server-status
           :documentation "What it said of itself last.")
   (warned :initform nil :accessor fastcoder--server-warned
           :documentation "The error that the user was told last; nil once it is over."))
  :documentation "A fastcoder-lsp that may suggest ghost text.")

(cl-defmethod eglot-initialization-options :around ((_server fastcoder-server))
  "Say that the status is shown here, so that the server does not show it too."
  (let* ((asked (cl-call-next-method))
         (options (and (listp asked) (copy-sequence asked))))
    (plist-put options :client (plist-put (copy-sequence (plist-get options :client)) :showsStatus t))))

(cl-defmethod eglot-client-capabilities :around ((_server fastcoder-server))
  "Say that inline completions can be shown, and late ones are asked for again."
  (let ((capabilities (cl-call-next-method)))
    (setq capabilities
          (plist-put capabilities :textDocument
                     (append '(:inlineCompletion (:dynamicRegistration :json-false))
                             (plist-get capabilities :textDocument))))
    ;; Eglot's own is an empty table, of whatever type its version makes it.
    (plist-put capabilities :experimental '(:fastcoderLate t))))

(cl-defmethod eglot-handle-notification ((server fastcoder-server) (_method (eql fastcoder/status)) &rest status)
  "Keep the STATUS of SERVER for the mode line, and warn of an error once."
  (setf (fastcoder--server-status server) status)
  (force-mode-line-update t)
  (pcase (plist-get status :state)
    ("error"
     (let ((trouble (fastcoder--trouble status)))
       ;; The next message of any package would take the place of one in the echo area.
       (unless (equal trouble (fastcoder--server-warned server))
         (setf (fastcoder--server-warned server) trouble)
         (display-warning 'fastcoder trouble :error))))
    ((or "ready" "off") (setf (fastcoder--server-warned server) nil))))

(cl-defmethod eglot-handle-notification
  ((_server fastcoder-server) (_method (eql fastcoder/late)) &key textDocument position &allow-other-keys)
  "A suggestion for POSITION of TEXTDOCUMENT is there, too late for its question.
Ask again, if that is where point is."
  (let ((buffer (window-buffer)))
    (with-current-buffer buffer
      (when (and (bound-and-true-p fastcoder-mode)
                 (fastcoder--same-text-p textDocument (eglot--VersionedTextDocumentIdentifier)))
        (fastcoder--take-late position)))))

(defun fastcoder--same-text-p (one other)
  "Whether the documents ONE and OTHER, of the protocol, are the same text."
  (and (equal (plist-get one :uri) (plist-get other :uri))
       (eql (plist-get one :version) (plist-get other :version))))

;;;###autoload
(defun fastcoder-setup (modes)
  "Let Eglot start fastcoder for MODES, a list of major modes, with ghost text."
  (add-to-list 'eglot-server-programs `(,modes . (fastcoder-server ,@fastcoder-command)))
  (add-hook 'eglot-managed-mode-hook #'fastcoder--follow-eglot))

(defun fastcoder--server ()
  "The fastcoder server of this buffer, or nil."
  (let ((server (eglot-current-server)))
    (and server (object-of-class-p server 'fastcoder-server) server)))

(defun fastcoder--follow-eglot ()
  "Turn `fastcoder-mode' on where Eglot manages the buffer by fastcoder, else off."
  (fastcoder-mode (if (and (eglot-managed-p) (fastcoder--server)) 1 -1)))

(defun fastcoder--server-or-lose ()
  "The fastcoder server of this buffer, or an error with a way out."
  (or (fastcoder--server)
      (user-error (cond ((eglot-current-server)
                         "Eglot runs another server in this buffer; see `fastcoder-setup'")
                        (buffer-file-name "No fastcoder server in this buffer; start it with `M-x eglot'")
                        (t "This buffer has no file; save it to one, then `M-x eglot'")))))

(defun fastcoder--lighter ()
  "The state of the server, for the mode line."
  (let* ((server (ignore-errors (fastcoder--server)))
         (status (and server (fastcoder--server-status server)))
         (percent (plist-get status :percent)))
    (pcase (plist-get status :state)
      ('nil " fast:-")
      ((and (or "ready" "thinking") (guard (numberp (plist-get status :snoozed))))
       (propertize (format " fast:%dm" (plist-get status :snoozed)) 'help-echo (fastcoder--described status)))
      ("ready" (propertize " fast" 'help-echo (fastcoder--described status)))
      ("thinking" " fast·")
      ("off" " fast:off")
      ("error" (propertize " fast:!" 'face 'error 'help-echo (fastcoder--described status)))
      ("loading" (if (numberp percent) (fastcoder--loading percent status) " fast:loading"))
      (_ " fast:…"))))

(defun fastcoder--loading (percent status)
  "PERCENT and what is being made by STATUS, as the mode line wants it."
  (let ((what (truncate-string-to-width (or (plist-get status :message) "") 24)))
    (propertize (replace-regexp-in-string "%" "%%" (string-trim-right (format " fast:%d%% %s" percent what)) t t)
                'help-echo (fastcoder--described status))))

(defun fastcoder--state (status)
  "The state of STATUS, with how far it is."
  (let ((percent (plist-get status :percent)))
    (concat (plist-get status :state) (and (numberp percent) (format " %d%%" percent)))))

(defun fastcoder--joined (between &rest parts)
  "PARTS that are texts and not empty, with BETWEEN between them."
  (string-join (seq-filter (lambda (part) (and (stringp part) (not (string-empty-p part)))) parts) between))

(defun fastcoder--trouble (status)
  "What is wrong and what to do, by STATUS."
  (fastcoder--joined ". " (string-remove-suffix "." (or (plist-get status :message) "")) (plist-get status :hint)))

(defun fastcoder--described (status)
  "STATUS in a sentence: the state, what is wrong, what to do, who is asked."
  (fastcoder--joined ": " (fastcoder--state status)
                     (apply #'fastcoder--joined "; " (fastcoder--trouble status) (fastcoder--sent status)
                            (append (plist-get status :notes) nil))))

(defun fastcoder--sent (status)
  "What is sent to whom, by STATUS; nil where nothing is.
Of an error the server's own words say it."
  (let ((asks (plist-get status :asks)))
    (and (stringp asks) (not (equal (plist-get status :state) "error"))
         (format "code around the cursor is sent to %s" asks))))

;;;; What is shown

;; The overlay stands at the completor's `start', where point was when it was drawn.  Accepting it replaces the next
;; `replaces' characters, which begin what followed point on its line: `tail'.
(cl-defstruct (fastcoder--shown (:constructor fastcoder--make-shown) (:copier nil))
  "Ghost text on the screen."
  (overlay nil :documentation "Where the text hangs.")
  (rest nil :documentation "The overlay with the text behind what stays as it is; nil if there is none.")
  (strike nil :documentation "The overlay on what is struck out; nil if nothing is.")
  (candidates nil :documentation "What can be shown, as (TEXT . COMMAND); the first is.")
  (place 1 :documentation "Number of the shown candidate among all, from 1.")
  (invoked nil :documentation "Whether the user asked; `turned' if they chose.")
  (tail "" :documentation "What stood behind point on its line.")
  (replaces 0 :documentation "How many characters of the tail it takes the place of."))

(cl-defstruct (fastcoder--completor (:constructor fastcoder--make-completor) (:copier nil))
  "All that is kept of one buffer: what is shown there, and what was asked."
  (shown nil :documentation "A `fastcoder--shown'; nil while nothing is.")
  (start 1 :documentation "Where point was at the last question, drawing or change.")
  (tick 0 :documentation "State of the text that was last looked at.")
  (asked nil :documentation "What tells the latest request from others; nil: no answer is wanted any more.")
  (timer nil :documentation "Will ask.")
  (unwanted nil :documentation "Whether the user said no, and nothing was asked since.")
  (rested nil :documentation "Where point rested last, as (POINT . TICK)."))

(defvar-local fastcoder--completor nil "The `fastcoder--completor' of this buffer, once there is one.")

(defvar fastcoder--rest-timer nil "Tells the server where point rests; there is one for all buffers.")

(defvar fastcoder--buffer nil
  "The buffer in which ghost text is shown or awaited, or was last.")

(defvar fastcoder--edit nil
  "The `fastcoder--edit' that is shown, or nil.")

(defvar-local fastcoder--edit-tick nil
  "State of the text when the next edit was asked for last.")

(defvar-local fastcoder--visible nil
  "Whether something is shown, for `minor-mode-map-alist', which knows variables.
`fastcoder--set-shown' alone sets it.")

(defun fastcoder--completor ()
  "The completor of this buffer."
  (or fastcoder--completor (setq fastcoder--completor (fastcoder--make-completor))))

(defun fastcoder--shown ()
  "What is shown in this buffer, or nil."
  (and fastcoder--completor (fastcoder--completor-shown fastcoder--completor)))

(defun fastcoder--set-shown (shown)
  "SHOWN is what is on the screen now; nil: nothing."
  (setf (fastcoder--completor-shown (fastcoder--completor)) shown)
  (setq fastcoder--visible (and shown t)))

(defconst fastcoder--again '(1.0)
  "Seconds after which one who pauses where there was nothing is asked for again.
The server keeps to a budget, says nothing rather than late, goes on in the
background, and tells when it is done: this is for one that does not tell, or
stood still meanwhile.")

(defvar fastcoder-ghost-map
  (let ((map (make-sparse-keymap)))
    (define-key map (kbd "TAB") #'fastcoder-accept)
    (define-key map (kbd "<tab>") #'fastcoder-accept)
    (define-key map (kbd "M-f") #'fastcoder-accept-word)
    (define-key map (kbd "M-e") #'fastcoder-accept-line)
    (define-key map (kbd "M-n") #'fastcoder-next)
    (define-key map (kbd "M-p") #'fastcoder-previous)
    (define-key map (kbd "C-g") #'fastcoder-dismiss)
    map)
  "Keys that hold while ghost text is shown.")
(add-to-list 'minor-mode-map-alist (cons 'fastcoder--visible fastcoder-ghost-map))

;;;###autoload
(define-minor-mode fastcoder-mode
  "Show suggestions of the fastcoder server as ghost text.

Keys while ghost text is shown:

\\{fastcoder-ghost-map}

Keys while the next edit is shown:

\\{fastcoder-edit-map}"
  :lighter (:eval (fastcoder--lighter))
  (if fastcoder-mode
      (progn (setf (fastcoder--completor-tick (fastcoder--completor)) (buffer-chars-modified-tick))
             (setq fastcoder--edit-tick (buffer-chars-modified-tick))
             (unless fastcoder--rest-timer
               (setq fastcoder--rest-timer (run-with-idle-timer 0.4 t #'fastcoder--tell-cursor)))
             (add-hook 'post-command-hook #'fastcoder--after-command nil t)
             (add-hook 'post-command-hook #'fastcoder--leave) ; runs in whatever buffer one has gone to
             (add-hook 'kill-buffer-hook #'fastcoder-dismiss nil t)
             ;; Another major mode forgets local variables, and so what is drawn.
             (add-hook 'change-major-mode-hook #'fastcoder-dismiss nil t)
             (add-hook 'kill-buffer-hook #'fastcoder--clear-edit nil t)
             (add-hook 'change-major-mode-hook #'fastcoder--clear-edit nil t))
    (remove-hook 'post-command-hook #'fastcoder--after-command t)
    (remove-hook 'kill-buffer-hook #'fastcoder-dismiss t)
    (remove-hook 'change-major-mode-hook #'fastcoder-dismiss t)
    (remove-hook 'kill-buffer-hook #'fastcoder--clear-edit t)
    (remove-hook 'change-major-mode-hook #'fastcoder--clear-edit t)
    (fastcoder-dismiss)
    (fastcoder--clear-edit)))

(defun fastcoder-not-typing-p ()
  "Non-nil where nobody types code, or where ghost text would be in the way.
That is in read-only text, with an active region, during an incremental search,
while a keyboard macro is recorded (it would replay the key, not the text),
while an entry is selected in a menu of Company or Corfu, and in Evil's states
other than insert."
  (or (fastcoder--busy-p) (fastcoder--evil-p)))

(defun fastcoder--busy-p ()
  "Whether the text cannot be changed, or keys are for something else."
  (or buffer-read-only
      (region-active-p) ; an empty region too: C-SPC begins one
      (bound-and-true-p isearch-mode)
      defining-kbd-macro
      (and (bound-and-true-p company-candidates) (bound-and-true-p company-selection-changed))
      (and completion-in-region-mode
           (/= (or (bound-and-true-p corfu--index) -1) (or (bound-and-true-p corfu--preselect) -1)))))

(defun fastcoder--evil-p ()
  "Whether Evil takes keys for commands."
  (and (bound-and-true-p evil-local-mode)
       (not (memq (bound-and-true-p evil-state) '(insert emacs)))))

(defun fastcoder--inhibited-p ()
  "Whether nothing is to be suggested here now."
  (run-hook-with-args-until-success 'fastcoder-inhibit-functions))

(defun fastcoder--here-p ()
  "Whether the selected window has this buffer, and what is shown, if anything."
  (and (eq (current-buffer) (window-buffer))
       (or (not (fastcoder--shown))
           (eq (overlay-get (fastcoder--shown-overlay (fastcoder--shown)) 'window) (selected-window)))))

(defun fastcoder--leave ()
  "Take the ghost text away once its window is not selected any more."
  (when (buffer-live-p fastcoder--buffer)
    (with-current-buffer fastcoder--buffer
      (unless (fastcoder--here-p)
        (setq fastcoder--buffer nil)
        (fastcoder-dismiss))))
  (when (and fastcoder--edit
             (not (memq (window-buffer)
                        (list (fastcoder--edit-buffer fastcoder--edit) (fastcoder--edit-origin fastcoder--edit)))))
    (fastcoder--clear-edit)))

(defun fastcoder--after-command ()
  "Ask after each change; else take the ghost text away when point has left."
  (when (memq this-command '(kill-ring-save copy-region-as-kill)) (fastcoder--tell-copied))
  (let ((completor (fastcoder--completor)) (tick (buffer-chars-modified-tick)))
    (cond ((/= tick (fastcoder--completor-tick completor))
           (setf (fastcoder--completor-tick completor) tick)
           (fastcoder--keep-what-was-typed)
           (cond ((fastcoder--inhibited-p) (fastcoder-dismiss))
                 ((not (fastcoder--choosing-p))
                  (fastcoder--forget-request)
                  (when fastcoder-auto (fastcoder--ask-after 0 fastcoder--again)))))
          ((and (or (fastcoder--shown) (fastcoder--completor-asked completor) (fastcoder--completor-timer completor))
                (or (/= (point) (fastcoder--completor-start completor))
                    (eq this-command 'keyboard-quit)
                    (fastcoder--inhibited-p)))
           (fastcoder-dismiss))))
  (fastcoder--follow-edit))

(defun fastcoder--tell-copied ()
  "Tell the server where code was copied: the place of the region, not its text.
Only where it says that other files' code goes along."
  (let ((server (fastcoder--server)) (mark (mark t)))
    (when (and server mark (eq t (plist-get (fastcoder--server-status server) :context)))
      ;; An error, of a server that has just died say, would take the hook away that this runs in.
      (with-demoted-errors "fastcoder: %S"
        (eglot--signal-textDocument/didChange)
        (jsonrpc-notify server :fastcoder/yanked
                        (list :textDocument (eglot--VersionedTextDocumentIdentifier)
                              :range (list :start (eglot--pos-to-lsp-position (min (point) mark))
                                           :end (eglot--pos-to-lsp-position (max (point) mark)))))))))

(defun fastcoder--tell-cursor ()
  "Tell the server where point rests, for a suggestion there."
  (when (and fastcoder-mode fastcoder-auto (eq (current-buffer) (window-buffer)) (not (fastcoder--busy-p)))
    (let ((server (fastcoder--server)) (place (cons (point) (buffer-chars-modified-tick))))
      (unless (or (not server) (equal place (fastcoder--completor-rested (fastcoder--completor))))
        (setf (fastcoder--completor-rested (fastcoder--completor)) place)
        (with-demoted-errors "fastcoder: %S"
          (eglot--signal-textDocument/didChange)
          (jsonrpc-notify server :fastcoder/cursor
                          (list :textDocument (eglot--VersionedTextDocumentIdentifier)
                                :position (eglot--pos-to-lsp-position (point)))))))))

(defun fastcoder--choosing-p ()
  "Whether one chooses among alternatives.
One who did keeps the choice as long as the typing follows it."
  (let ((shown (fastcoder--shown)))
    (and shown (fastcoder--shown-invoked shown))))

(defun fastcoder--keep-what-was-typed ()
  "Take typed letters off the ghost text; other letters take it away.
The screen is drawn after this, so nothing flickers."
  (let ((shown (fastcoder--shown)) (start (fastcoder--completor-start (fastcoder--completor))))
    (when shown
      (let* ((candidates (fastcoder--shown-candidates shown))
             (tail (fastcoder--shown-tail shown))
             (behind (fastcoder--behind))
             ;; A closer that was typed over stands before point now, one that came with an opener behind it.
             (replaces (+ (fastcoder--shown-replaces shown) (- (length behind) (length tail))))
             (typed (and (<= start (point))
                         (<= 0 replaces)
                         (equal (substring tail (fastcoder--shown-replaces shown)) (substring behind replaces))
                         (buffer-substring-no-properties start (point))))
             (kept (and typed
                        (cl-loop for (text . command) in candidates
                                 for rest = (and (string-prefix-p typed text) (substring text (length typed)))
                                 unless (or (member rest '(nil ""))
                                            (and (> (length behind) (length tail))
                                                 (not (zerop (nth 2 (fastcoder--divided rest (substring behind 0 replaces)))))))
                                 collect (cons rest command)))))
        (if kept
            (fastcoder--show kept replaces
                             (if (= (length kept) (length candidates)) (fastcoder--shown-place shown) 1)
                             (fastcoder--shown-invoked shown))
          (fastcoder--erase)))))
  (setf (fastcoder--completor-start (fastcoder--completor)) (point)))

(defun fastcoder--behind ()
  "What stands behind point on its line."
  (buffer-substring-no-properties (point) (line-end-position)))

;;;; Asking

(defun fastcoder--ask-after (seconds again)
  "Ask what belongs at point after SECONDS; AGAIN: when to ask again for nothing."
  (let ((completor (fastcoder--completor)))
    (setq fastcoder--buffer (current-buffer))
    (setf (fastcoder--completor-start completor) (point)
          (fastcoder--completor-timer completor)
          (run-with-timer seconds nil #'fastcoder--ask-in (current-buffer) 2 again))))

(defun fastcoder--ask-in (buffer kind &optional again)
  "Ask in BUFFER, if it is in the window.
KIND and AGAIN are those of `fastcoder--request'."
  (when (buffer-live-p buffer)
    (with-current-buffer buffer
      (setf (fastcoder--completor-timer (fastcoder--completor)) nil)
      (when (eq buffer (window-buffer))
        (fastcoder--request kind again)))))

(defun fastcoder--request (kind &optional again then)
  "Ask for what belongs at point; KIND is 1 if the user asked, 2 while typing.
AGAIN is a list of seconds after which to ask again, each time that nothing was
the answer.  THEN is called once something is shown.
Nothing is cancelled: the server answers an older request at once when a newer
one comes, and the answer is dropped here."
  (let ((server (fastcoder--server)) (buffer (current-buffer)) (here (point))
        (tick (buffer-chars-modified-tick)) (asked (list kind)) (completor (fastcoder--completor)))
    (fastcoder--forget-request)
    (when (and server (not (fastcoder--inhibited-p)))
      (setq fastcoder--buffer buffer)
      (setf (fastcoder--completor-asked completor) asked
            (fastcoder--completor-start completor) here
            (fastcoder--completor-unwanted completor) nil)
      (eglot--signal-textDocument/didChange)
      (jsonrpc-async-request
       server :textDocument/inlineCompletion
       (append (eglot--TextDocumentPositionParams) `(:context (:triggerKind ,kind)))
       :success-fn (lambda (answer)
                     (when (buffer-live-p buffer)
                       (with-current-buffer buffer
                         ;; Another major mode forgets the completor, and so whatever was asked.
                         (when (and (eq asked (fastcoder--completor-asked (fastcoder--completor)))
                                    (eq buffer (window-buffer))
                                    (= here (point))
                                    (= tick (buffer-chars-modified-tick))
                                    (not (fastcoder--inhibited-p)))
                           (setf (fastcoder--completor-asked (fastcoder--completor)) nil)
                           (fastcoder--take answer (= kind 1))
                           (when (= kind 1)
                             (message (and (not (fastcoder--shown))
                                           "fastcoder: no suggestion; `M-x fastcoder-why' says why")))
                           (cond ((fastcoder--shown) (when then (funcall then)))
                                 (again (fastcoder--ask-after (car again) (cdr again))))))))
       :timeout nil                     ; the first answer waits for the model to be loaded
       :timeout-fn #'ignore
       :error-fn (lambda (problem)
                   (when (= kind 1) (message "fastcoder: %s" (plist-get problem :message))))))))

(defun fastcoder--take-late (position)
  "Ask for what is there by now, if point is at POSITION, of the protocol.
Not while an answer is on its way, or one has said no, or has chosen among
alternatives."
  (let ((completor (fastcoder--completor)) (shown (fastcoder--shown)))
    (when (and (not (fastcoder--completor-asked completor))
               (not (fastcoder--completor-unwanted completor))
               (not (and shown (eq (fastcoder--shown-invoked shown) 'turned)))
               (= (point) (eglot--lsp-position-to-point position)))
      (fastcoder--request 2))))

(defun fastcoder--forget-request ()
  "Want no answer that is still to come."
  (let ((completor (fastcoder--completor)))
    (when (fastcoder--completor-timer completor) (cancel-timer (fastcoder--completor-timer completor)))
    (setf (fastcoder--completor-asked completor) nil
          (fastcoder--completor-timer completor) nil)))

(defun fastcoder--take (answer invoked)
  "Show what of ANSWER can be shown at point; INVOKED: the user asked."
  (let ((items (append (if (vectorp answer) answer (plist-get answer :items)) nil))
        replaces candidates)
    (dolist (item items)
      (pcase (fastcoder--fit item)
        (`(,text . ,width)
         ;; Alternatives that replace something else than the first cannot be told apart on the screen.
         (when (and (memq replaces (list nil width)) (not (assoc text candidates)))
           (setq replaces width)
           (push (cons text (plist-get item :command)) candidates)))))
    (if candidates
        (fastcoder--show (nreverse candidates) replaces 1 invoked)
      (fastcoder--erase))))

(defun fastcoder--fit (item)
  "What of ITEM would stand at point, and instead of how many characters.
As a pair; nil where it does not fit."
  (let* ((insert (plist-get item :insertText))
         (text (if (stringp insert) insert (plist-get insert :value)))
         (range (plist-get item :range))
         (start (if range (eglot--lsp-position-to-point (plist-get range :start)) (point)))
         (end (if range (eglot--lsp-position-to-point (plist-get range :end)) (point)))
         (typed (and (<= start (point) end) (buffer-substring-no-properties start (point)))))
    (when (and typed (string-prefix-p typed text) (< (length typed) (length text)))
      (cons (substring text (length typed)) (- end (point))))))

;;;; Drawing

;; What is replaced and stays the same is not drawn anew: an unchanged closer stays where it is on the screen.
(defun fastcoder--divided (text gone)
  "How TEXT is drawn where GONE stands, as (BEFORE AFTER STRUCK).
BEFORE and AFTER are drawn before and behind GONE, or, where it does not stay
whole, BEFORE is drawn before it and its first STRUCK characters are struck out."
  (let* ((case-fold-search nil)
         (at (cond ((string-empty-p gone) nil)
                   ((string-match (concat "\\`.*\\(" (regexp-quote gone) "\\)") text) (match-beginning 1))
                   ((string-suffix-p gone text) (- (length text) (length gone))))))
    (if at
        (list (substring text 0 at) (substring text (+ at (length gone))) 0)
      (let ((struck (1+ (or (cl-mismatch gone text :from-end t) -1))))
        (list (substring text 0 (- (length text) (- (length gone) struck))) "" struck)))))

(defun fastcoder--draw (place drawn)
  "Show the text DRAWN at PLACE, in this window alone, and return the overlay."
  (let ((overlay (make-overlay place place nil t nil)))
    (unless (string-empty-p drawn)
      (put-text-property 0 1 'cursor t drawn)) ; the cursor stays before it
    (overlay-put overlay 'window (selected-window))
    (overlay-put overlay 'after-string drawn)
    overlay))

(defun fastcoder--show (candidates replaces place invoked)
  "Show the first of CANDIDATES at point.
Accepting it replaces REPLACES characters.  It is number PLACE of all, which is
shown if INVOKED, that is, if the user asked; `turned' if they chose it."
  (pcase-let* ((tail (fastcoder--behind))
               (gone (substring tail 0 (min replaces (length tail))))
               (`(,before ,after ,struck) (fastcoder--divided (caar candidates) gone))
               (all (length candidates))
               (count (if (and invoked (> all 1)) (propertize (format " %d/%d" place all) 'face 'fastcoder-count) ""))
               (rest nil) (strike nil))
    (fastcoder--erase)
    (fastcoder--clear-edit)
    (setq before (propertize before 'face 'fastcoder-ghost)
          after (propertize after 'face 'fastcoder-ghost))
    (if (string-empty-p after)
        (setq before (concat before count))
      (setq rest (fastcoder--draw (+ (point) (length gone)) (concat after count))))
    (unless (zerop struck)
      (setq strike (make-overlay (point) (+ (point) struck)))
      (overlay-put strike 'window (selected-window))
      (overlay-put strike 'face 'fastcoder-replaced))
    (setf (fastcoder--completor-start (fastcoder--completor)) (point))
    (setq fastcoder--buffer (current-buffer))
    (fastcoder--set-shown
     (fastcoder--make-shown :overlay (fastcoder--draw (point) before) :rest rest :strike strike :candidates candidates
                            :place place :invoked invoked :tail tail :replaces replaces))))

(defun fastcoder--erase ()
  "Show nothing."
  (let ((shown (fastcoder--shown)))
    (when shown
      (mapc #'delete-overlay (delq nil (list (fastcoder--shown-overlay shown) (fastcoder--shown-rest shown)
                                             (fastcoder--shown-strike shown))))
      (fastcoder--set-shown nil))))

;;;; Commands on what is shown

(defun fastcoder--text ()
  "The suggestion that is shown; nil while nothing is."
  (let ((shown (fastcoder--shown)))
    (and shown (caar (fastcoder--shown-candidates shown)))))

(defun fastcoder-accept ()
  "Accept the whole suggestion."
  (interactive)
  (let ((shown (fastcoder--shown)))
    (when shown
      (pcase-let ((`(,text . ,command) (car (fastcoder--shown-candidates shown))))
        (fastcoder-dismiss)
        (delete-char (fastcoder--shown-replaces shown))
        (fastcoder--insert text)
        (when command
          (fastcoder--execute (plist-get command :command) (plist-get command :arguments)))))))

(defun fastcoder--accept-part (part)
  "Insert PART, with which the suggestion begins."
  (if (equal part (fastcoder--text)) (fastcoder-accept) (fastcoder--insert part)))

(defun fastcoder--insert (text)
  "Insert TEXT so that `repeat' does that again, whatever is suggested then."
  (insert text)
  (setq real-this-command (lambda () (interactive) (insert text))))

(defun fastcoder-accept-word ()
  "Accept the next word of the suggestion."
  (interactive)
  (let ((text (fastcoder--text)) (syntax (syntax-table)))
    (when text
      (fastcoder--accept-part
       (with-temp-buffer
         (set-syntax-table syntax)
         (insert text)
         (goto-char (point-min))
         (skip-chars-forward " \t\n")
         (when (zerop (skip-syntax-forward "w_")) (skip-syntax-forward "^w_ "))
         (buffer-substring (point-min) (if (bobp) (point-max) (point))))))))

(defun fastcoder-accept-line ()
  "Accept the next line of the suggestion."
  (interactive)
  (let ((text (fastcoder--text)))
    (when text
      (string-match "\\`\n*[^\n]*" text)
      (fastcoder--accept-part (match-string 0 text)))))

(defun fastcoder-next (&optional by)
  "Show the next alternative; with BY, that many further.
While you type there is one suggestion; this requests the others."
  (interactive "p")
  (let ((shown (fastcoder--shown)))
    (when shown
      (if (or (fastcoder--shown-invoked shown) (cdr (fastcoder--shown-candidates shown)))
          (fastcoder--turn (or by 1))
        (fastcoder--ask-by-key (lambda () (fastcoder--turn (or by 1))))))))

(defun fastcoder-previous (&optional by)
  "Show the previous alternative; with BY, that many back."
  (interactive "p")
  (fastcoder-next (- (or by 1))))

(defun fastcoder--turn (by)
  "Show the candidate that stands BY behind the shown one."
  (let* ((shown (fastcoder--shown))
         (candidates (fastcoder--shown-candidates shown))
         (all (length candidates))
         (turns (mod by all)))
    (when (= all 1) (message "fastcoder: no alternative"))
    (fastcoder--show (append (nthcdr turns candidates) (butlast candidates (- all turns)))
                     (fastcoder--shown-replaces shown)
                     (1+ (mod (+ (fastcoder--shown-place shown) -1 turns) all))
                     'turned)))

(defun fastcoder-ask ()
  "Ask for suggestions at point."
  (interactive)
  (fastcoder--server-or-lose)
  (if (fastcoder--inhibited-p)
      (message "fastcoder: suggestions are off here; see `fastcoder-inhibit-functions'")
    (fastcoder--ask-by-key)))

(defun fastcoder--ask-by-key (&optional then)
  "Ask with alternatives, and say so until the answer.
THEN is called once something is shown."
  (let* ((status (fastcoder--server-status (fastcoder--server-or-lose)))
         (loading (equal (plist-get status :state) "loading")))
    (fastcoder--request 1 nil then)
    (message "fastcoder: %s…" (if loading "loading the model" "asking for suggestions"))))

(defun fastcoder-dismiss ()
  "Dismiss the ghost text, and drop a pending answer."
  (interactive)
  (fastcoder--forget-request)
  (setf (fastcoder--completor-unwanted (fastcoder--completor)) t)
  (fastcoder--erase))

;;;; Next edits

;; A change that the server proposes for a place further on.  There is one at a time; ghost text comes first.
(cl-defstruct (fastcoder--edit (:constructor fastcoder--make-edit) (:copier nil))
  "A proposed change."
  (buffer nil :documentation "Where it belongs; nil until its file is visited.")
  (origin nil :documentation "The buffer where it was asked for.")
  (uri nil :documentation "Its document.")
  (tick nil :documentation "State of the text that it changes; nil until its file is visited.")
  (edits nil :documentation "As in the answer.")
  (more nil :documentation "Whether more files want the same.")
  (changes nil :documentation "The same as (BEGIN END TEXT), in their order; nil until its file is visited.")
  (overlays nil :documentation "What is drawn.")
  (reach 0 :documentation "How many lines away from it point may go."))

(defvar fastcoder--edit-timer nil "Will ask for the next edit.")
(defvar fastcoder--edit-asked nil "What tells the latest question from others; nil: no answer is wanted any more.")
(defvar-local fastcoder--edit-visible nil "Whether the keys act on an edit here.")
(defvar-local fastcoder--edit-in-evil nil
  "The same in Evil's states, whose keys come before those of minor modes.")

(defconst fastcoder--edit-near 2 "Lines around an edit where the key makes it without going there.")
(defconst fastcoder--edit-far 30 "Lines that point may go away from an edit.")

(defvar fastcoder-edit-map
  (let ((map (make-sparse-keymap)))
    (define-key map (kbd "TAB") #'fastcoder-accept-edit)
    (define-key map (kbd "<tab>") #'fastcoder-accept-edit)
    (define-key map (kbd "C-g") #'fastcoder-reject-edit)
    (define-key map (kbd "<escape>") #'fastcoder-reject-edit)
    map)
  "Keys that hold while a next edit is shown.")
(add-to-list 'minor-mode-map-alist (cons 'fastcoder--edit-visible fastcoder-edit-map))

(defvar fastcoder--edit-maps (list (cons 'fastcoder--edit-in-evil fastcoder-edit-map))
  "For `emulation-mode-map-alists', where Evil's own maps are.")
(add-to-ordered-list 'emulation-mode-map-alists 'fastcoder--edit-maps 100)

(defun fastcoder--set-edit-keys (buffer shown)
  "Let the keys in BUFFER act on an edit if SHOWN."
  (when (buffer-live-p buffer)
    (with-current-buffer buffer
      (setq fastcoder--edit-visible shown
            fastcoder--edit-in-evil (and shown (fastcoder--evil-p))))))

(defun fastcoder--clear-edit ()
  "Show no next edit, and want none that is still to come."
  (when fastcoder--edit-timer (cancel-timer fastcoder--edit-timer))
  (setq fastcoder--edit-timer nil fastcoder--edit-asked nil)
  (when fastcoder--edit
    (mapc #'delete-overlay (fastcoder--edit-overlays fastcoder--edit))
    (fastcoder--set-edit-keys (fastcoder--edit-buffer fastcoder--edit) nil)
    (fastcoder--set-edit-keys (fastcoder--edit-origin fastcoder--edit) nil)
    (setq fastcoder--edit nil)))

(defun fastcoder--proposes-edits-p (server)
  "Whether SERVER proposes edits: by its status, else as it said at the start."
  (let ((status (fastcoder--server-status server)))
    (eq t (if (plist-member status :edits) (plist-get status :edits)
            (plist-get (plist-get (eglot--capabilities server) :experimental) :fastcoderEdits)))))

(defun fastcoder--edits-wanted-p ()
  "Whether next edits are wanted here now."
  (let ((server (fastcoder--server))
        (fastcoder-inhibit-functions (remq 'fastcoder-not-typing-p fastcoder-inhibit-functions)))
    (and fastcoder-edits server
         (fastcoder--proposes-edits-p server)
         (eq (current-buffer) (window-buffer))
         (not (fastcoder--busy-p))
         (not (fastcoder--inhibited-p)))))

(defun fastcoder--follow-edit ()
  "Ask for the next edit of a changed text; clear one that has become wrong."
  (let ((tick (buffer-chars-modified-tick)))
    (when (and fastcoder--edit (not (fastcoder--edit-holds-p fastcoder--edit))) (fastcoder--clear-edit))
    (cond (fastcoder--edit (fastcoder--draw-edit fastcoder--edit))
          ((eql tick fastcoder--edit-tick))
          ((not (fastcoder--shown))
           (fastcoder--clear-edit)
           (setq fastcoder--edit-timer
                 (run-with-timer fastcoder-edit-delay nil #'fastcoder--ask-edit-in (current-buffer)))))))

(defun fastcoder--edit-holds-p (edit)
  "Whether EDIT still fits, and point has not gone far away from it."
  (let ((buffer (fastcoder--edit-buffer edit)))
    (and (not (fastcoder--shown))
         (eq (current-buffer) (window-buffer))
         (not (fastcoder--busy-p))
         (if (fastcoder--edit-tick edit)
             (and (buffer-live-p buffer)
                  (= (fastcoder--edit-tick edit) (buffer-chars-modified-tick buffer)))
           (and (eq (fastcoder--edit-origin edit) (current-buffer))
                (eql fastcoder--edit-tick (buffer-chars-modified-tick))))
         (or (not (eq buffer (current-buffer)))
             (<= (fastcoder--edit-distance edit) (fastcoder--edit-reach edit))))))

(defun fastcoder--change-distance (change)
  "Count the lines between point and CHANGE."
  (pcase-let ((`(,begin ,end ,_) change) (here (line-beginning-position)))
    (cond ((< (line-end-position) begin) (count-lines here begin))
          ((< end here) (count-lines end here))
          (t 0))))

(defun fastcoder--nearest (edit)
  "The change of EDIT that is nearest to point."
  (car (sort (copy-sequence (fastcoder--edit-changes edit))
             (lambda (one other) (< (fastcoder--change-distance one) (fastcoder--change-distance other))))))

(defun fastcoder--edit-distance (edit)
  "Count the lines between point and EDIT."
  (fastcoder--change-distance (fastcoder--nearest edit)))

(defun fastcoder--ask-edit-in (buffer)
  "Ask for the next edit of BUFFER, if it is in the window."
  (setq fastcoder--edit-timer nil)
  (when (buffer-live-p buffer)
    (with-current-buffer buffer
      (unless (fastcoder--shown) (fastcoder--request-edit 2)))))

(defun fastcoder--request-edit (kind)
  "Ask for the next edit; KIND is 1 if the user asked, 2 after a change.
Return whether edits are wanted here."
  (when (fastcoder--edits-wanted-p)
    (fastcoder--clear-edit)
    (let ((buffer (current-buffer)) (tick (buffer-chars-modified-tick)) (asked (list kind)))
      (setq fastcoder--edit-asked asked fastcoder--edit-tick tick)
      (eglot--signal-textDocument/didChange)
      (let ((document (eglot--VersionedTextDocumentIdentifier)))
        (jsonrpc-async-request
         (fastcoder--server) :textDocument/copilotInlineEdit
         (append (plist-put (eglot--TextDocumentPositionParams) :textDocument document)
                 `(:context (:triggerKind ,kind)))
         :success-fn (lambda (answer)
                       (when (and (eq asked fastcoder--edit-asked) (buffer-live-p buffer))
                         (setq fastcoder--edit-asked nil)
                         (with-current-buffer buffer
                           (when (and (= tick (buffer-chars-modified-tick))
                                      (not (fastcoder--shown))
                                      (fastcoder--edits-wanted-p))
                             (fastcoder--take-edit answer document)
                             (when (and (= kind 1) (not fastcoder--edit)) (message "fastcoder: no edit here"))))))
         :timeout nil
         :timeout-fn #'ignore
         :error-fn #'ignore)))
    t))

(defun fastcoder--take-edit (answer document)
  "Show the edits of ANSWER, to a question about DOCUMENT."
  (let* ((all (append (plist-get answer :edits) nil))
         (of (plist-get (car all) :textDocument))
         (uri (plist-get of :uri))
         (here (equal uri (plist-get document :uri))))
    (when (and all (or (not here) (eql (plist-get of :version) (plist-get document :version))))
      (let ((edit (fastcoder--make-edit
                   :origin (current-buffer) :uri uri :reach fastcoder--edit-far
                   :more (eq t (plist-get answer :elsewhere))
                   :edits (cl-remove-if-not (lambda (one) (equal uri (plist-get (plist-get one :textDocument) :uri)))
                                            all))))
        (when (or (not here) (fastcoder--read-edit edit))
          (when here (cl-incf (fastcoder--edit-reach edit) (fastcoder--edit-distance edit)))
          (setq fastcoder--edit edit)
          (fastcoder--draw-edit edit)
          (fastcoder--tell-edit edit :textDocument/didShowInlineEdit))))))

(defun fastcoder--read-edit (edit)
  "Find out what becomes other text in this buffer by EDIT; nil if nothing."
  (setf (fastcoder--edit-buffer edit) (current-buffer)
        (fastcoder--edit-tick edit) (buffer-chars-modified-tick)
        (fastcoder--edit-changes edit)
        (sort (delq nil (mapcar #'fastcoder--change (fastcoder--edit-edits edit)))
              (lambda (one other) (< (car one) (car other))))))

(defun fastcoder--change (one)
  "The edit ONE of the protocol as (BEGIN END TEXT), without its unchanged ends.
Nil if all of it is unchanged."
  (let* ((range (plist-get one :range))
         (begin (eglot--lsp-position-to-point (plist-get range :start)))
         (end (eglot--lsp-position-to-point (plist-get range :end)))
         (old (buffer-substring-no-properties begin end))
         (new (string-replace "\n" (if (fastcoder--ends-in-return-p begin) "\r\n" "\n")
                              (string-replace "\r" "" (plist-get one :text))))
         (same (compare-strings old nil nil new nil nil)))
    (unless (eq same t)
      (let* ((before (1- (abs same)))
             (old (substring old before))
             (new (substring new before))
             (cut (- (length old) 1 (cl-mismatch old new :from-end t))))
        (list (+ begin before) (- end cut) (substring new 0 (- (length new) cut)))))))

(defun fastcoder--ends-in-return-p (place)
  "Whether the line at PLACE ends in a carriage return.
Files of mixed line ends have such lines.  At the end of the text, the
line above counts."
  (save-excursion
    (goto-char place)
    (when (and (eobp) (bolp) (not (bobp))) (forward-line -1))
    (end-of-line)
    (eq (char-before) ?\r)))

(defun fastcoder--tell-edit (edit method)
  "Notify the server of EDIT by METHOD."
  (let ((server (fastcoder--server)))
    (dolist (command (and server (fastcoder--edit-commands edit)))
      (with-demoted-errors "fastcoder: %S"
        (jsonrpc-notify server method (list :item (list :command command)))))))

(defun fastcoder--edit-commands (edit)
  "The commands that tell the server that EDIT was made."
  (delq nil (mapcar (lambda (one) (plist-get one :command)) (fastcoder--edit-edits edit))))

(defun fastcoder--draw-edit (edit)
  "Draw EDIT in this window: a diff in place, or a hint where it is."
  (mapc #'delete-overlay (fastcoder--edit-overlays edit))
  (setf (fastcoder--edit-overlays edit) nil)
  (cl-flet ((draw (begin end &rest properties)
              (let ((overlay (make-overlay begin end nil t nil)))
                (push overlay (fastcoder--edit-overlays edit))
                (overlay-put overlay 'window (selected-window))
                (cl-loop for (name value) on properties by #'cddr do (overlay-put overlay name value)))))
    (when (eq (fastcoder--edit-buffer edit) (current-buffer))
      (pcase-dolist (`(,begin ,end ,text) (fastcoder--edit-changes edit))
        (let ((below (and (< begin end) (string-match-p "\n" (concat text (buffer-substring begin end)))
                          (not (string-prefix-p "\n" text)))))
          (draw begin end 'face 'fastcoder-deleted
                'after-string (concat (and below (not (string-empty-p text)) (/= (char-before end) ?\n) "\n")
                                      (propertize text 'face 'fastcoder-inserted 'cursor t))))))
    (let ((hint (fastcoder--edit-hint edit)))
      (cond ((null hint))
            ((< (+ (string-width hint) (- (line-end-position) (line-beginning-position))) (window-width))
             (draw (line-end-position) (line-end-position) 'after-string (propertize hint 'face 'fastcoder-count 'cursor t)))
            (t (let (message-log-max) (message "fastcoder:%s" hint))))))
  (fastcoder--set-edit-keys (current-buffer) t))

(defun fastcoder--edit-hint (edit)
  "Where EDIT is, or a part of it, in words; nil if all is in this window."
  (if (not (eq (fastcoder--edit-buffer edit) (current-buffer)))
      (format " edit in %s (TAB)%s" (file-name-nondirectory (fastcoder--edit-file edit))
              (if (fastcoder--edit-more edit) ", fastcoder-edit-everywhere for all" ""))
    (let ((begin (car (cl-find-if-not #'pos-visible-in-window-p (fastcoder--edit-changes edit) :key #'car))))
      (when begin
        (format (if (pos-visible-in-window-p (car (fastcoder--nearest edit))) " also %s line %d" " edit in %s line %d (TAB)")
                (if (< begin (point)) "↑" "↓") (line-number-at-pos begin))))))

(defun fastcoder--edit-file (edit)
  "The file that EDIT belongs to."
  (fastcoder--path (fastcoder--edit-uri edit)))

(defun fastcoder-accept-edit ()
  "Go to the next edit; if point is there already, make it."
  (interactive)
  (let ((edit fastcoder--edit))
    (cond ((null edit) (message "fastcoder: no edit is shown"))
          ((and (eq (fastcoder--edit-buffer edit) (current-buffer))
                (<= (fastcoder--edit-distance edit) fastcoder--edit-near)
                (pos-visible-in-window-p (car (fastcoder--nearest edit))))
           (fastcoder--make edit))
          (t (fastcoder--go-to-edit edit)))))

(defun fastcoder--go-to-edit (edit)
  "Go to EDIT and show it there."
  (push-mark nil t)
  (unless (eq (fastcoder--edit-buffer edit) (current-buffer))
    (fastcoder--set-edit-keys (fastcoder--edit-origin edit) nil)
    (find-file (fastcoder--edit-file edit))
    (unless (fastcoder--read-edit edit) (setq edit nil)))
  (if (null edit) (fastcoder--clear-edit)
    (goto-char (car (fastcoder--nearest edit)))
    (setf (fastcoder--edit-reach edit) fastcoder--edit-far)
    (unless (pos-visible-in-window-p) (recenter))
    (fastcoder--draw-edit edit)))

(defun fastcoder--make (edit)
  "Make EDIT, which one undo takes back, and leave point at its end."
  (let ((commands (fastcoder--edit-commands edit))
        (changes (reverse (fastcoder--edit-changes edit)))
        (end (make-marker)))
    (fastcoder--clear-edit)
    (undo-boundary)
    (pcase-dolist (`(,from ,to ,text) changes)
      (goto-char from)
      (delete-region from to)
      (insert text)
      (unless (marker-position end) (set-marker end (point))))
    (undo-boundary)
    (goto-char end)
    (set-marker end nil)
    (dolist (command commands)
      (fastcoder--execute (plist-get command :command) (plist-get command :arguments)))))

(defun fastcoder-reject-edit ()
  "Reject the next edit."
  (interactive)
  (when fastcoder--edit
    (fastcoder--tell-edit fastcoder--edit :fastcoder/editRejected)
    (fastcoder--clear-edit)))

(defun fastcoder-ask-edit ()
  "Ask for the next edit now."
  (interactive)
  (fastcoder--server-or-lose)
  (unless (fastcoder--request-edit 1)
    (message "fastcoder: no next edits here; see docs/next-edit.md")))

;;;; The last change at all its places

(defvar eglot-confirm-server-edits)
(defvar eglot-confirm-server-initiated-edits)

(defvar fastcoder--made-everywhere nil
  "What `fastcoder-edit-everywhere' made last: (BUFFER . TICK) for each file.")

(defvar-local fastcoder--offer nil "The server's offer that this buffer shows, and the buffer that it is about.")

(defvar fastcoder-everywhere-mode-map
  (let ((map (make-sparse-keymap)))
    (define-key map (kbd "RET") #'fastcoder-make-everywhere)
    (define-key map (kbd "q") #'fastcoder-reject-everywhere)
    map)
  "Keys in the diff of `fastcoder-edit-everywhere'.")

(defvar diff-font-lock-defaults)

(define-derived-mode fastcoder-everywhere-mode special-mode "Places"
  "Show the last change at all its places, before it is made there."
  (require 'diff-mode)                  ; whose own keys would go to the places
  (setq-local font-lock-defaults diff-font-lock-defaults))

(defun fastcoder-edit-everywhere ()
  "Show the last change at all its places in the repository, as a diff.
RET there makes them all."
  (interactive)
  (let ((server (fastcoder--server-or-lose)) (buffer (current-buffer)))
    (eglot--signal-textDocument/didChange)
    (jsonrpc-async-request
     server :fastcoder/editsElsewhere
     (plist-put (eglot--TextDocumentPositionParams) :textDocument (eglot--VersionedTextDocumentIdentifier))
     :success-fn (lambda (answer)
                   (if (and (plist-get answer :edit) (buffer-live-p buffer))
                       (fastcoder--show-everywhere answer buffer)
                     (message "fastcoder: %s" (plist-get answer :message))))
     :timeout nil
     :timeout-fn #'ignore
     :error-fn (lambda (problem) (message "fastcoder: %s" (plist-get problem :message))))))

(defun fastcoder--path (uri)
  "The file of URI."
  (funcall (if (fboundp 'eglot-uri-to-path) 'eglot-uri-to-path 'eglot--uri-to-path) uri))

(defun fastcoder--files-of (edit)
  "The files of the workspace's EDIT, each as (FILE . EDITS)."
  (append (mapcar (lambda (one) (cons (fastcoder--path (plist-get (plist-get one :textDocument) :uri)) (plist-get one :edits)))
                  (plist-get edit :documentChanges))
          (cl-loop for (uri edits) on (plist-get edit :changes) by #'cddr
                   collect (cons (fastcoder--path (substring (symbol-name uri) 1)) edits))))

(defun fastcoder--show-everywhere (offer buffer)
  "Show OFFER, about BUFFER, as a diff."
  (let* ((root (expand-file-name (with-current-buffer buffer default-directory)))
         (diff (mapconcat (pcase-lambda (`(,file . ,edits))
                            (let ((name (file-relative-name file root)))
                              (concat "--- " name "\n+++ " name "\n" (fastcoder--hunks file edits buffer))))
                          (fastcoder--files-of (plist-get offer :edit)) "")))
    (with-current-buffer (get-buffer-create "*fastcoder everywhere*")
      (let ((inhibit-read-only t))
        (erase-buffer)
        (insert diff))
      (setq default-directory root)
      (fastcoder-everywhere-mode)
      (setq fastcoder--offer (cons offer buffer)
            header-line-format (concat (plist-get offer :title) "   RET makes them all, q none"))
      (goto-char (point-min))
      (pop-to-buffer (current-buffer)))))

(defun fastcoder--hunks (file edits origin)
  "The lines of FILE that EDITS change, as hunks of a diff.
The server counts columns as in the buffer ORIGIN."
  (let ((visiting (find-buffer-visiting file)) hunks)
    (with-temp-buffer
      (if visiting
          (insert (with-current-buffer visiting
                    (save-restriction (widen) (buffer-substring-no-properties (point-min) (point-max)))))
        (insert-file-contents file))
      (dolist (name '(eglot-move-to-column-function eglot-move-to-linepos-function))
        (when (boundp name) (set (make-local-variable name) (buffer-local-value name origin))))
      (cl-flet ((place (edit end) (eglot--lsp-position-to-point (plist-get (plist-get edit :range) end)))
                (line () (buffer-substring-no-properties (line-beginning-position) (line-end-position))))
        ;; From the end, so that the places of the others hold.
        (dolist (edit (sort (append edits nil) (lambda (one other) (> (place one :start) (place other :start)))))
          (goto-char (place edit :start))
          (unless (eql (line-number-at-pos) (caar hunks)) (push (list (line-number-at-pos) (line) nil) hunks))
          (delete-region (point) (place edit :end))
          (insert (plist-get edit :newText))
          (setf (nth 2 (car hunks)) (line)))))
    (mapconcat (pcase-lambda (`(,number ,old ,new)) (format "@@ -%d +%d @@\n-%s\n+%s\n" number number old new)) hunks "")))

(defun fastcoder-make-everywhere ()
  "Make the edits of this diff; they are not saved.
A file that has changed meanwhile is left out."
  (interactive)
  (pcase-let ((`(,offer . ,buffer) fastcoder--offer))
    (quit-window t)
    (with-current-buffer buffer
      (fastcoder--execute "fastcoder.applyEdits" (vector (plist-get offer :id))))))

(defun fastcoder-reject-everywhere ()
  "Make none of the edits of this diff."
  (interactive)
  (pcase-let ((`(,offer . ,buffer) fastcoder--offer))
    (quit-window t)
    (with-current-buffer buffer
      (jsonrpc-notify (fastcoder--server-or-lose) :fastcoder/editRejected
                      (list :item (list :command (list :arguments (vector (plist-get offer :id)))))))))

(cl-defmethod eglot-handle-request :around ((_server fastcoder-server) (_method (eql workspace/applyEdit)) &rest params)
  "Make the edit of PARAMS without another question: the user has seen the diff."
  (let ((buffers (mapcar (lambda (file) (find-file-noselect (car file))) (fastcoder--files-of (plist-get params :edit))))
        eglot-confirm-server-edits eglot-confirm-server-initiated-edits)
    (dolist (buffer buffers) (with-current-buffer buffer (undo-boundary)))
    (prog1 (cl-call-next-method)
      (setq fastcoder--made-everywhere
            (mapcar (lambda (buffer)
                      (with-current-buffer buffer (undo-boundary))
                      (cons buffer (buffer-chars-modified-tick buffer)))
                    buffers)))))

(defun fastcoder-undo-everywhere ()
  "Undo what `fastcoder-edit-everywhere' made, in all files.
Files that have changed since stay as they are."
  (interactive)
  (let ((made fastcoder--made-everywhere) (undone 0))
    (setq fastcoder--made-everywhere nil)
    (pcase-dolist (`(,buffer . ,tick) made)
      (when (and (buffer-live-p buffer) (= tick (buffer-chars-modified-tick buffer)))
        (with-current-buffer buffer
          (let (last-command) (undo))
          (cl-incf undone))))
    (message "fastcoder: undone in %d of %d files" undone (length made))))

;;;; Commands on the server

(defun fastcoder--execute (command &optional arguments then)
  "Let the server run COMMAND with ARGUMENTS; THEN gets its answer."
  (jsonrpc-async-request
   (fastcoder--server-or-lose) :workspace/executeCommand
   (list :command command :arguments (or arguments []))
   :success-fn (or then #'ignore)
   :timeout-fn #'ignore
   :error-fn (lambda (problem) (message "fastcoder: %s" (plist-get problem :message)))))

(defun fastcoder--dismiss-all ()
  "Dismiss the ghost text of all buffers, and the next edit."
  (fastcoder--clear-edit)
  (dolist (buffer (buffer-list))
    (with-current-buffer buffer (when fastcoder-mode (fastcoder-dismiss)))))

;;;###autoload
(defun fastcoder-toggle ()
  "Turn suggestions off (and unload the model) or on."
  (interactive)
  (fastcoder--execute "fastcoder.toggle" nil
                      (lambda (answer)
                        (let ((on (eq t (plist-get answer :enabled))))
                          (unless on (fastcoder--dismiss-all))
                          (message "fastcoder is %s" (if on "on" "off"))))))

(defun fastcoder-snooze (minutes)
  "Suggest only by `fastcoder-ask' for MINUTES; 0 ends the snooze."
  (interactive "NMinutes without suggestions (0 ends it): ")
  (fastcoder--execute "fastcoder.snooze" (vector minutes) (lambda (_) (fastcoder--dismiss-all))))

(defun fastcoder-reload ()
  "Reload the settings and the model."
  (interactive)
  (fastcoder--execute "fastcoder.reload" nil (lambda (_) (message "fastcoder: reloaded"))))

(defun fastcoder-restart ()
  "Restart the server."
  (interactive)
  (eglot-reconnect (fastcoder--server-or-lose) t))

(defun fastcoder-status ()
  "Show the server's state."
  (interactive)
  (message "fastcoder: %s" (fastcoder--described (fastcoder--server-status (fastcoder--server-or-lose)))))

(defun fastcoder-why ()
  "Explain why this buffer got no suggestion."
  (interactive)
  (jsonrpc-async-request
   (fastcoder--server-or-lose) :fastcoder/why (list :textDocument (eglot--TextDocumentIdentifier))
   :success-fn (lambda (answer)
                 (with-help-window "*fastcoder why*"
                   (unless fastcoder-auto (princ "`fastcoder-auto' is off: only `fastcoder-ask' asks.\n"))
                   (princ (plist-get answer :text))))
   :timeout-fn #'ignore
   :error-fn (lambda (problem) (message "fastcoder: %s" (plist-get problem :message)))))

(defun fastcoder-stats ()
  "Say whether suggestions work well, and show latency and acceptance."
  (interactive)
  (fastcoder--execute "fastcoder.stats" nil #'fastcoder--show-stats))

(defun fastcoder--show-stats (stats)
  "Show STATS, the server's answer, in a help window."
  (let ((suggestions (plist-get stats :suggestions)) (rates (plist-get stats :rates)))
    (with-help-window "*fastcoder*"
      (princ (format "%s\n\n" (plist-get stats :summary)))
      (princ (format "model      %s\n" (fastcoder--model stats)))
      (princ (format "shown      %d, accepted %d (%s)\n" (plist-get suggestions :shown)
                     (plist-get suggestions :accepted) (fastcoder--percent (plist-get rates :accepted))))
      (princ (format "requests   %d, answered without the model %s\n" (plist-get (plist-get stats :requests) :requests)
                     (fastcoder--percent (plist-get rates :typed_through))))
      (princ (format "memory     %d MB%s\n\n" (/ (plist-get (plist-get stats :memory) :resident_bytes) 1000000)
                     (fastcoder--host (plist-get stats :host))))
      (princ (format "%-12s %8s %8s\n" "ms" "median" "95 %"))
      (cl-loop for (span ms) on (plist-get stats :ms) by #'cddr
               do (princ (format "%-12s %8.1f %8.1f\n" (substring (symbol-name span) 1)
                                 (plist-get ms :p50) (plist-get ms :p95)))))))

(defun fastcoder--model (stats)
  "The model and its engine, by STATS."
  (let ((model (plist-get stats :model)))
    (if (member model '(nil "")) "not loaded; it loads at the first suggestion"
      (format "%s (%s)" model (plist-get stats :engine)))))

(defun fastcoder--host (host)
  "Which process has the model, by HOST, how many share it, and whose turn it is.
Nothing where the server itself has it, or before there is one."
  (if (and (eq (plist-get host :shared) t) (cl-plusp (or (plist-get host :process_id) 0)))
      (format ", process %d, shared by %d%s" (plist-get host :process_id) (plist-get host :fronts)
              (pcase (plist-get host :turn)
                ("own" ", this editor's turn")
                ("other" ", another editor's turn")
                (_ "")))
    ""))

(defun fastcoder--percent (share)
  "SHARE, from 0 to 1 or null, in words."
  (if (numberp share) (format "%.0f %%" (* 100 share)) "–"))

(provide 'fastcoder)
;;; fastcoder.el ends here
