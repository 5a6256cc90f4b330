;;; fastcoder.el --- Ghost text from a local code model, through Eglot  -*- lexical-binding: t; -*-

;; Package-Requires: ((emacs "28.1") (eglot "1.9"))
;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; Eglot starts the server; `fastcoder-mode' asks it for inline completions while one types and shows them behind point.
;; Without this file the same server offers its suggestions through `completion-at-point'.

;;; Code:

(require 'cl-lib)
(require 'eglot)
(require 'jsonrpc)

(defgroup fastcoder nil "Ghost text from a local code model." :group 'tools :prefix "fastcoder-")

(defcustom fastcoder-command '("fastcoder-lsp" "serve")
  "The program that Eglot starts, its arguments, and settings.
Settings stand at the end: \"serve\" :initializationOptions (:enabled t)."
  :type '(repeat sexp))

(defface fastcoder-ghost '((t :inherit shadow :slant italic)) "Text that is only suggested.")

(defclass fastcoder-server (eglot-lsp-server) () :documentation "A fastcoder-lsp that may suggest ghost text.")

(cl-defmethod eglot-client-capabilities :around ((_server fastcoder-server))
  "Say that inline completions can be shown."
  (let ((capabilities (cl-call-next-method)))
    (plist-put capabilities :textDocument
               (append '(:inlineCompletion (:dynamicRegistration :json-false))
                       (plist-get capabilities :textDocument)))))

;;;###autoload
(defun fastcoder-setup (modes)
  "Let Eglot start fastcoder for MODES, a list of major modes, with ghost text."
  (add-to-list 'eglot-server-programs `(,modes . (fastcoder-server ,@fastcoder-command)))
  (add-hook 'eglot-managed-mode-hook #'fastcoder--follow-eglot))

(defun fastcoder--follow-eglot ()
  "Turn `fastcoder-mode' on where the buffer's server is fastcoder, else off."
  (fastcoder-mode (if (object-of-class-p (eglot-current-server) 'fastcoder-server) 1 -1)))

;; What is shown in a buffer: the overlay stands at point, its text is `fastcoder--text', and accepting replaces the next
;; `fastcoder--replaces' characters.
(defvar-local fastcoder--overlay nil "The ghost text's overlay; nil while nothing is shown.")
(defvar-local fastcoder--text "")
(defvar-local fastcoder--replaces 0)
(defvar-local fastcoder--command nil "What the server wants to be told when all of it is accepted.")
(defvar-local fastcoder--tick 0 "State of the text that was last asked about.")
(defvar fastcoder--count 0 "Requests so far.")
(defvar-local fastcoder--asked 0 "Number of the latest request; 0 where its answer is not wanted any more.")

(defvar fastcoder-ghost-map
  (let ((map (make-sparse-keymap)))
    (define-key map (kbd "TAB") #'fastcoder-accept)
    (define-key map (kbd "<tab>") #'fastcoder-accept)
    (define-key map (kbd "M-f") #'fastcoder-accept-word)
    (define-key map (kbd "C-g") #'fastcoder-dismiss)
    map)
  "Keys that hold while ghost text is shown.")
(add-to-list 'minor-mode-map-alist (cons 'fastcoder--overlay fastcoder-ghost-map))

;;;###autoload
(define-minor-mode fastcoder-mode
  "Show suggestions of the fastcoder server as ghost text."
  :lighter " fast"
  (if fastcoder-mode
      (progn (setq fastcoder--tick (buffer-chars-modified-tick))
             (add-hook 'post-command-hook #'fastcoder--after-command nil t))
    (remove-hook 'post-command-hook #'fastcoder--after-command t)
    (fastcoder-dismiss)))

(defun fastcoder--after-command ()
  "Ask after each change; take the ghost text away when point leaves it."
  (let ((tick (buffer-chars-modified-tick)))
    (cond ((/= tick fastcoder--tick)
           (setq fastcoder--tick tick)
           (fastcoder--keep-what-was-typed)
           (fastcoder--request 2))
          ((and fastcoder--overlay (/= (point) (overlay-start fastcoder--overlay)))
           (fastcoder-dismiss)))))

(defun fastcoder--keep-what-was-typed ()
  "Typing the suggested letters keeps the rest until the server's own answer comes."
  (when fastcoder--overlay
    (let* ((start (overlay-start fastcoder--overlay))
           (typed (and (<= start (point)) (buffer-substring-no-properties start (point)))))
      (if (and typed (string-prefix-p typed fastcoder--text) (< (length typed) (length fastcoder--text)))
          (fastcoder--show (substring fastcoder--text (length typed)) fastcoder--replaces fastcoder--command)
        (fastcoder-dismiss)))))

(defun fastcoder--request (kind)
  "Ask for what belongs at point; KIND is 1 if the user asked, 2 while typing.
Nothing is cancelled: an older request is answered at once when a newer comes."
  (let ((server (eglot-current-server)) (buffer (current-buffer)) (here (point))
        (number (setq fastcoder--asked (cl-incf fastcoder--count))))
    (when server
      (eglot--signal-textDocument/didChange)
      (jsonrpc-async-request
       server :textDocument/inlineCompletion
       (append (eglot--TextDocumentPositionParams) `(:context (:triggerKind ,kind)))
       :success-fn (lambda (answer)
                     (when (buffer-live-p buffer)
                       (with-current-buffer buffer
                         (when (and (= number fastcoder--asked) (= here (point)))
                           (fastcoder--take answer)))))
       :timeout nil                     ; the first answer waits for the model to be loaded
       :error-fn #'ignore))))

(defun fastcoder--take (answer)
  "Show the first item of ANSWER, if it can be shown at point."
  (fastcoder--erase)
  (let* ((items (if (vectorp answer) answer (plist-get answer :items)))
         (item (and (> (length items) 0) (elt items 0)))
         (insert (plist-get item :insertText))
         (text (if (stringp insert) insert (plist-get insert :value)))
         (range (plist-get item :range))
         (start (if range (eglot--lsp-position-to-point (plist-get range :start)) (point)))
         (end (if range (eglot--lsp-position-to-point (plist-get range :end)) (point))))
    (when (and text (<= start (point) end))
      (let ((typed (buffer-substring-no-properties start (point))))
        (when (and (string-prefix-p typed text) (< (length typed) (length text)))
          (fastcoder--show (substring text (length typed)) (- end (point)) (plist-get item :command)))))))

(defun fastcoder--show (text replaces command)
  "Show TEXT at point.
Accepting it replaces REPLACES characters and tells the server by COMMAND."
  (fastcoder--erase)
  (let ((shown (propertize text 'face 'fastcoder-ghost)))
    (put-text-property 0 1 'cursor t shown)     ; the cursor stays before it
    (setq fastcoder--overlay (make-overlay (point) (point) nil t nil)
          fastcoder--text text fastcoder--replaces replaces fastcoder--command command)
    (overlay-put fastcoder--overlay 'after-string shown)))

(defun fastcoder-ask ()
  "Ask for a suggestion at point."
  (interactive)
  (fastcoder--request 1))

(defun fastcoder-dismiss ()
  "Take the ghost text away, and want no answer that is still to come."
  (interactive)
  (setq fastcoder--asked 0)
  (fastcoder--erase))

(defun fastcoder--erase ()
  "Show nothing."
  (when fastcoder--overlay
    (delete-overlay fastcoder--overlay)
    (setq fastcoder--overlay nil)))

(defun fastcoder-accept ()
  "Put the whole suggestion in."
  (interactive)
  (when fastcoder--overlay
    (let ((text fastcoder--text) (replaces fastcoder--replaces) (command fastcoder--command))
      (fastcoder-dismiss)
      (delete-char replaces)
      (insert text)
      (when command
        (jsonrpc-async-request
         (eglot--current-server-or-lose) :workspace/executeCommand
         (list :command (plist-get command :command) :arguments (or (plist-get command :arguments) []))
         :success-fn #'ignore :error-fn #'ignore :timeout-fn #'ignore)))))

(defun fastcoder-accept-word ()
  "Put the next word of the suggestion in."
  (interactive)
  (when fastcoder--overlay
    (let* ((text fastcoder--text)
           (word (with-temp-buffer
                   (insert text)
                   (goto-char (point-min))
                   (forward-word)
                   (buffer-substring (point-min) (point)))))
      (if (equal word text) (fastcoder-accept) (insert word)))))

(provide 'fastcoder)
;;; fastcoder.el ends here
